package leafd.client.wire;

/**
 * IDs in a row: {@code first}, {@code first + 1}, … {@code first + count - 1}.
 *
 * @param first the first ID. A run that the client hands out never passes 2^63 - 1
 * @param count how many IDs, 1 to 2^32 - 1
 */
public record Run(long first, long count) {
    /**
     * Returns the highest ID of the run.
     *
     * @return the last ID
     */
    public long last() {
        return first + count - 1;
    }
}
