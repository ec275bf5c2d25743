package leafd.client.wire;

import java.util.List;

/** What a response says. */
public interface Reply {
    /**
     * Returns the name of the reply in the protocol, such as {@code Ids}.
     *
     * @return the name
     */
    default String name() {
        return getClass().getSimpleName();
    }

    /**
     * The daemon refuses a call or the connection.
     *
     * @param code the number of the error; see {@link ErrorCode}
     * @param retryAfterMs how long to wait before the next try; 0 if unknown
     * @param detail a number that belongs to the code, unsigned; 0 if it has none
     * @param message a text for logs, whose wording may change
     */
    record Error(int code, long retryAfterMs, long detail, String message) implements Reply {}

    /**
     * Answers {@code Hello}.
     *
     * @param version the version of the protocol from here on
     * @param maxCount the most IDs of one request
     * @param maxInFlight the most requests in flight on the connection
     */
    record Hello(int version, long maxCount, long maxInFlight) implements Reply {}

    /**
     * IDs, as runs in the order of issue. Decoding does not check them against the request.
     *
     * @param runs one run or more
     */
    record Ids(List<Run> runs) implements Reply {}

    /**
     * The clock of the daemon's host.
     *
     * @param unixMs milliseconds since 1970, unsigned
     */
    record Time(long unixMs) implements Reply {}

    /**
     * The state of the daemon.
     *
     * @param status the state
     */
    record Status(DaemonStatus status) implements Reply {}

    /** The daemon is stopping. */
    record Goodbye() implements Reply {}
}
