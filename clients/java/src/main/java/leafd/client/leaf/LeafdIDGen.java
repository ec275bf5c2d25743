package leafd.client.leaf;

import leafd.client.LeafdClient;
import leafd.client.LeafdException;
import leafd.client.wire.ErrorCode;

/**
 * Leaf's interface, answered by leafd: change the imports, and keep the calls.
 *
 * <p>The codes are Leaf's. -1: {@link #init()} was not called or failed. -2: there is no such tag, or its
 * name is invalid. -3: no ID came in time, for any other reason. If the thread is interrupted, the result is
 * -3 and its interrupt flag stays set.
 */
public final class LeafdIDGen implements IDGen {
    private static final long NOT_INITIALISED = -1;
    private static final long UNKNOWN_TAG = -2;
    private static final long UNAVAILABLE = -3;

    private final LeafdClient client;
    private final Source source;
    private volatile boolean ready;

    private interface Source {
        long next(String key) throws InterruptedException;
    }

    private LeafdIDGen(LeafdClient client, Source source) {
        this.client = client;
        this.source = source;
    }

    /**
     * Gives IDs of the tag that {@code get} names.
     *
     * @param client the client, which remains the caller's to close
     * @return the source
     */
    public static LeafdIDGen segment(LeafdClient client) {
        return new LeafdIDGen(client, client::next);
    }

    /**
     * Gives snowflake IDs. As in Leaf, the key does not matter.
     *
     * @param client the client, which remains the caller's to close
     * @return the source
     */
    public static LeafdIDGen snowflake(LeafdClient client) {
        return new LeafdIDGen(client, key -> client.snowflake());
    }

    /** Whether the daemon answers. Call it again if it does not. */
    @Override
    public boolean init() {
        try {
            client.time();
            ready = true;
        } catch (LeafdException unreachable) {
            return false;
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        return ready;
    }

    @Override
    public Result get(String key) {
        if (!ready) {
            return new Result(NOT_INITIALISED, Status.EXCEPTION);
        }
        try {
            return new Result(source.next(key), Status.SUCCESS);
        } catch (LeafdException.Refused refused) {
            boolean unknown = refused.code() == ErrorCode.UNKNOWN_TAG || refused.code() == ErrorCode.BAD_TAG;
            return new Result(unknown ? UNKNOWN_TAG : UNAVAILABLE, Status.EXCEPTION);
        } catch (IllegalArgumentException | NullPointerException badTag) {
            return new Result(UNKNOWN_TAG, Status.EXCEPTION);
        } catch (LeafdException unavailable) {
            return new Result(UNAVAILABLE, Status.EXCEPTION);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return new Result(UNAVAILABLE, Status.EXCEPTION);
        }
    }
}
