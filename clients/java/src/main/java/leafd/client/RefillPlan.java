package leafd.client;

import java.util.concurrent.TimeUnit;
import leafd.client.wire.ErrorCode;

/**
 * When a pool leases, and how much. Pure: the time is an argument, in nanoseconds, and another class does
 * the leasing.
 */
final class RefillPlan {
    /** How long leases have to fail before that is an outage. A restart of the daemon takes less. */
    static final long OUTAGE = TimeUnit.SECONDS.toNanos(1);
    /** How long a limit that the daemon named counts. Quotas may be raised at a reload. */
    static final long LIMIT_HOLDS = TimeUnit.SECONDS.toNanos(60);
    /** Nothing to do until somebody asks. */
    static final Due NOTHING = new Due(0, Long.MAX_VALUE);

    /** How much a chunk may grow from one lease to the next. From 100 IDs to a million it takes five. */
    private static final long GROWTH = 8;

    /**
     * What to do now.
     *
     * @param lease lease this many IDs now; 0 is none
     * @param pause otherwise look again after this many nanoseconds
     */
    record Due(long lease, long pause) {}

    /**
     * What the pool holds and has given out.
     *
     * @param left IDs that any caller can take
     * @param lent IDs that local handles hold
     * @param taken IDs that callers and local handles have taken since the start
     */
    record Level(long left, long lent, long taken) {}

    /**
     * What a failure means.
     *
     * @param isOutage whether to report an outage now
     * @param notBefore when the next attempt may be made
     */
    record Setback(boolean isOutage, long notBefore) {}

    private final long min;
    private final long max;
    private final long lasts;
    private final long backoffMin;
    private final long backoffMax;
    private long chunk;
    /** IDs of one chunk because of a quota, and until when. */
    private long quota = Long.MAX_VALUE;
    private long quotaUntil;
    private boolean leasedBefore;
    private long lastLease;
    private long takenAtLastLease;
    /** IDs per second between the last two leases. */
    private double rate;
    private boolean troubled;
    private long troubledSince;
    private int attempts;
    private long notBefore;
    /** Whether another attempt may succeed although nobody changes anything. */
    private boolean passes;
    private boolean reported;

    /** {@code lasts}: how long a chunk should last. All but {@code min} and {@code max} in nanoseconds. */
    RefillPlan(long min, long max, long lasts, long backoffMin, long backoffMax) {
        this.min = min;
        this.max = max;
        this.lasts = lasts;
        this.backoffMin = backoffMin;
        this.backoffMax = backoffMax;
        chunk = min;
    }

    /** What to do now. {@code asked}: somebody has asked since the last attempt. */
    Due due(long now, Level level, boolean asked) {
        if (level.left() > chunk / 2) {
            return NOTHING;
        }
        if (troubled) {
            if (!passes && !asked) {
                return NOTHING;
            }
            if (now - notBefore < 0) {
                return new Due(0, notBefore - now);
            }
        }
        chunk = nextChunk(now, level);
        // Never more than two of the largest chunks, whatever local handles hold.
        long room = Math.max(min, 2 * max - level.left() - level.lent());
        return new Due(Math.min(chunk, room), 0);
    }

    /** The size of the next chunk: what was used since the last lease, as a rate. */
    private long nextChunk(long now, Level level) {
        long limit = now - quotaUntil < 0 ? quota : Long.MAX_VALUE;
        if (!leasedBefore) {
            return Math.min(min, limit);
        }
        double elapsed = Math.max(1, now - lastLease);
        rate = Math.max(0, level.taken() - takenAtLastLease) * 1e9 / elapsed;
        // A double beyond the range becomes the highest number.
        long wanted = (long) (rate * lasts / 1e9);
        long grown = between(chunk / 2, wanted, chunk * GROWTH);
        return Math.max(1, Math.min(limit, between(min, grown, max)));
    }

    private static long between(long low, long value, long high) {
        return Math.max(low, Math.min(value, high));
    }

    /** The daemon has leased something. Returns how long the outage was that ends; 0 if none was reported. */
    long leased(long now, Level level) {
        leasedBefore = true;
        lastLease = now;
        takenAtLastLease = level.taken();
        long outage = troubled && reported ? Math.max(1, now - troubledSince) : 0;
        troubled = false;
        return outage;
    }

    /** A request failed. {@code jitter} is a random number from 0 to 1. */
    Setback failed(long now, LeafdException error, double jitter) {
        long retryAfter = 0;
        if (error instanceof LeafdException.Refused refused) {
            retryAfter = TimeUnit.MILLISECONDS.toNanos(refused.retryAfterMs());
            if (refused.code() == ErrorCode.QUOTA_EXCEEDED) {
                // Others under this quota shall get something, too.
                limit(now, Long.divideUnsigned(refused.detail(), 4));
            } else if (refused.code() == ErrorCode.BAD_COUNT) {
                // More at once than a quota gives in a second.
                limit(now, refused.detail());
                if (quota < chunk) {
                    return new Setback(false, now);
                }
            }
        }
        if (!troubled) {
            troubled = true;
            troubledSince = now;
            attempts = 0;
            reported = false;
        }
        notBefore = now + Math.max(retryAfter, Backoff.pause(backoffMin, backoffMax, attempts, jitter));
        attempts++;
        passes = error.isTemporary();
        boolean isOutage = !passes || now - troubledSince >= OUTAGE;
        boolean isNews = isOutage && !reported;
        reported |= isOutage;
        return new Setback(isNews, notBefore);
    }

    private void limit(long now, long count) {
        quota = count < 0 ? Long.MAX_VALUE : Math.max(1, count);
        quotaUntil = now + LIMIT_HOLDS;
    }

    long chunk() {
        return chunk;
    }

    double rate() {
        return rate;
    }
}
