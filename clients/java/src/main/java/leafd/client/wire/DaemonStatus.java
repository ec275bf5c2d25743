package leafd.client.wire;

import java.util.OptionalLong;

/**
 * The state of the daemon. Counters are unsigned 64-bit numbers; times are milliseconds since 1970.
 *
 * @param version the daemon's version
 * @param pid its process ID, as it sees itself
 * @param uptimeMs milliseconds since it became ready
 * @param connections open connections, this one included
 * @param requests requests for IDs since the start, refused ones included
 * @param stateDir where it keeps its state
 * @param segments the IDs of tags
 * @param snowflake the snowflake IDs
 */
public record DaemonStatus(
        String version,
        long pid,
        long uptimeMs,
        long connections,
        long requests,
        String stateDir,
        Segments segments,
        Snowflake snowflake) {

    /**
     * The state of the IDs of tags.
     *
     * @param store the store in words
     * @param storeError why the store does not work; empty while it works
     * @param tags tags known
     * @param waiting requests that wait for a range now
     * @param issued IDs issued since the start
     * @param leases leases taken since the start
     */
    public record Segments(
            String store, String storeError, long tags, long waiting, long issued, long leases) {}

    /**
     * The state of the snowflake IDs.
     *
     * @param state whether they are issued
     * @param worker the worker ID, if there is one
     * @param registry where the worker ID comes from
     * @param layout the layout, as {@code leafd.client.Layout} reads it
     * @param ceilingUnixMs nothing is issued at or past this time before it is raised on disk
     * @param lastUnixMs the time of the last ID; 0 before the first
     * @param clockUnixMs the daemon's clock
     * @param issued IDs issued since the start
     * @param identity the daemon's identity in the registry; empty if it needs none
     * @param lastReportMsAgo time since the registry last took a report
     * @param registryError the registry's last error; empty if its last call succeeded
     * @param limitUnixMs without another report nothing is issued at or past this time
     * @param clockOffsetMs mean of the live peers' clocks minus the daemon's
     * @param peers peers that answered the last check of the clock
     */
    public record Snowflake(
            State state,
            OptionalLong worker,
            String registry,
            String layout,
            long ceilingUnixMs,
            long lastUnixMs,
            long clockUnixMs,
            long issued,
            String identity,
            OptionalLong lastReportMsAgo,
            String registryError,
            OptionalLong limitUnixMs,
            OptionalLong clockOffsetMs,
            long peers) {}

    /** Whether the daemon issues snowflake IDs: one of the records in this interface. */
    public interface State {
        /** It does. */
        record Serving() implements State {}

        /**
         * It waits for its clock, which ends by itself.
         *
         * @param behindMs how far the clock is behind the times already used
         */
        record ClockBehind(long behindMs) implements State {}

        /**
         * It does not.
         *
         * @param reason why
         */
        record Refused(String reason) implements State {}

        /**
         * It is claiming its worker ID; requests wait for it.
         *
         * @param reason what it waits for
         */
        record Starting(String reason) implements State {}
    }
}
