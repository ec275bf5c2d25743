package leafd.client.form;

/**
 * The fleet ID: 40 random bits, chosen once for an installation and the same on all its hosts, so that two
 * installations cannot make equal UUIDs. {@code openssl rand -hex 5} makes one.
 *
 * @param bits the bits, from 0 to 2^40 - 1
 */
public record FleetId(long bits) {
    static final int BITS = 40;
    static final long MASK = (1L << BITS) - 1;

    private static final String SHAPE = "x".repeat(BITS / 4);

    /**
     * The fleet ID of these bits.
     *
     * @param bits the bits
     * @throws IllegalArgumentException if there are more than 40
     */
    public FleetId {
        if ((bits & ~MASK) != 0) {
            throw new IllegalArgumentException("fleet ID " + bits + ": a fleet ID is from 0 to 2^40 - 1");
        }
    }

    /**
     * Reads a fleet ID, such as {@code 4be1f0a37c}.
     *
     * @param text 10 lowercase hexadecimal digits
     * @return the fleet ID
     * @throws IllegalArgumentException if the text is anything else
     */
    public static FleetId parse(String text) {
        try {
            Hex.check(text, SHAPE);
        } catch (IllegalArgumentException wrong) {
            throw new IllegalArgumentException("fleet ID " + wrong.getMessage()
                    + "; a fleet ID is 10 lowercase hexadecimal digits, such as 4be1f0a37c");
        }
        return new FleetId(Hex.read(text, 0, text.length()));
    }

    /** Writes what {@link #parse} reads. */
    @Override
    public String toString() {
        return Hex.write(bits, SHAPE.length());
    }
}
