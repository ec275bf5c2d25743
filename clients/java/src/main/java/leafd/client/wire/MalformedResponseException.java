package leafd.client.wire;

/** The bytes are not a response of this protocol. */
public final class MalformedResponseException extends Exception {
    private static final long serialVersionUID = 1L;

    /**
     * Makes the exception.
     *
     * @param message what is wrong with the bytes
     */
    public MalformedResponseException(String message) {
        super(message);
    }
}
