package leafd.client;

import java.lang.System.Logger;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** The refill thread of a pool: does what the plan says. Only callers of the pool make it look. */
final class PoolRefiller implements Runnable {
    private static final Logger LOGGER = System.getLogger("leafd.client");

    private final PoolStock stock;
    private final RefillPlan plan;
    private final ConnectionLoop loop;
    /** The tag; null for snowflakes. */
    private final String tag;
    private final Duration timeout;

    PoolRefiller(PoolStock stock, RefillPlan plan, ConnectionLoop loop, String tag, Duration timeout) {
        this.stock = stock;
        this.plan = plan;
        this.loop = loop;
        this.tag = tag;
        this.timeout = timeout;
    }

    @Override
    public void run() {
        // Whether somebody has asked since the last attempt.
        boolean asked = false;
        while (true) {
            long lease;
            stock.lock.lock();
            try {
                if (stock.isClosed()) {
                    return;
                }
                asked |= stock.takeAsked();
                RefillPlan.Due due = plan.due(System.nanoTime(), stock.level(), asked);
                stock.planned(plan.chunk(), plan.rate());
                lease = due.lease();
                if (lease == 0) {
                    stock.awaitWanted(due.pause());
                }
            } finally {
                stock.lock.unlock();
            }
            if (lease > 0) {
                asked = false;
                lease(lease);
            }
        }
    }

    /**
     * Leases a chunk by as many requests as the daemon's limit takes, one after the other, so that the IDs
     * arrive in the order of issue. What the first ones bring counts even if a later one fails.
     */
    private void lease(long chunk) {
        try {
            long left = chunk;
            while (left > 0) {
                // Before the request: no ID of the answer is older.
                IdRange.Birth birth = IdRange.Birth.now();
                Ids ids = request(left);
                publish(ids, birth, left == chunk);
                left -= ids.count();
            }
            stock.lock.lock();
            try {
                stock.refilled();
            } finally {
                stock.lock.unlock();
            }
        } catch (LeafdException.Closed closed) {
            // The thread is about to end.
        } catch (LeafdException error) {
            failed(error);
        } catch (Throwable unexpected) {
            // Such as OutOfMemoryError. Without this thread, the pool would stay empty for ever.
            failed(new LeafdException.Unavailable("the pool could not be refilled", unexpected));
        }
    }

    private Ids request(long most) {
        while (true) {
            try {
                return LeafdClient.await(new PendingCall<>(CallSpec.lease(tag, most), timeout), loop);
            } catch (InterruptedException ignored) {
                // Nobody who interrupts this thread can mean to stop the pool: that is what `close` is for.
            }
        }
    }

    private void publish(Ids ids, IdRange.Birth birth, boolean isFirst) {
        long outage = 0;
        stock.lock.lock();
        try {
            if (isFirst) {
                // Measured when the IDs arrive: the request belongs to the time in which the last chunk was used.
                outage = plan.leased(System.nanoTime(), stock.level());
                stock.planned(plan.chunk(), plan.rate());
            }
            stock.publish(ids, birth);
        } finally {
            stock.lock.unlock();
        }
        if (outage > 0) {
            long ms = TimeUnit.NANOSECONDS.toMillis(outage);
            LOGGER.log(Logger.Level.INFO, "{0} can lease again, after {1} ms", name(), Long.toString(ms));
        }
    }

    private void failed(LeafdException error) {
        RefillPlan.Setback setback;
        stock.lock.lock();
        long held;
        try {
            setback = plan.failed(System.nanoTime(), error, ThreadLocalRandom.current().nextDouble());
            stock.failed(error, setback.notBefore());
            held = stock.level().left();
        } finally {
            stock.lock.unlock();
        }
        if (setback.isOutage()) {
            LOGGER.log(Logger.Level.WARNING, "{0} cannot lease and holds {1} IDs: {2}", name(),
                    Long.toString(held), error.getMessage());
        }
    }

    private String name() {
        return tag == null ? "The pool of snowflake IDs" : "The pool of " + tag;
    }
}
