package leafd.client;

/**
 * The counters of a pool since it was made.
 *
 * @param leased IDs that the daemon has leased to the pool: those issued, held, lent and lost
 * @param issued IDs that callers got, and IDs of batches that local handles have used up
 * @param held IDs that any caller can take now; this is what an outage leaves
 * @param lent IDs of the batches that local handles hold, used or not, and of those given back
 * @param lost IDs that nobody gets: too old, or held when the pool was closed
 * @param refills chunks that the daemon has leased
 * @param failures attempts to lease that failed
 * @param waits calls that had to wait for a refill
 * @param chunk the size of a chunk at present, in IDs
 */
public record PoolStats(
        long leased,
        long issued,
        long held,
        long lent,
        long lost,
        long refills,
        long failures,
        long waits,
        long chunk) {}
