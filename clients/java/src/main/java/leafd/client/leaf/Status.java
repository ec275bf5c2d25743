package leafd.client.leaf;

/** Whether a {@link Result} holds an ID, as in Leaf. */
public enum Status {
    /** It does. */
    SUCCESS,
    /** It does not; {@link Result#getId()} is a negative code. */
    EXCEPTION
}
