package leafd.client.leaf;

/** The answer of an {@link IDGen}, as in Leaf. */
public final class Result {
    private final long id;
    private final Status status;

    /**
     * Makes a result.
     *
     * @param id the ID, or a negative code
     * @param status which of both it is
     */
    public Result(long id, Status status) {
        this.id = id;
        this.status = status;
    }

    /**
     * Returns the ID, or a negative code.
     *
     * @return an ID only if {@link #getStatus()} is {@link Status#SUCCESS}
     */
    public long getId() {
        return id;
    }

    /**
     * Returns whether there is an ID.
     *
     * @return the status
     */
    public Status getStatus() {
        return status;
    }

    @Override
    public String toString() {
        return "Result{id=" + id + ", status=" + status + "}";
    }
}
