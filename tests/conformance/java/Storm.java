import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import leafd.client.LeafdClient;
import leafd.client.LeafdPool;
import leafd.client.wire.Run;

/**
 * Many threads at once, in one process. Each worker has a client or pool, which its threads share. In a pool,
 * every second thread uses a local handle for single IDs.
 */
final class Storm {
    private final Driver.Line line;
    private final AtomicLong issued = new AtomicLong();
    private final AtomicLong calls = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private final List<Object> errors = new ArrayList<>();

    Storm(Driver.Line line) {
        this.line = line;
    }

    /** Gets so many IDs. */
    private interface Source extends AutoCloseable {
        List<Run> next(long count) throws InterruptedException;

        @Override
        default void close() {}
    }

    Object run() throws Exception {
        long workers = line.number("workers");
        long threads = line.number("threads");
        long ids = Long.parseLong(line.value("ids"));
        List<AutoCloseable> shared = new ArrayList<>();
        List<Thread> all = new ArrayList<>();
        for (long worker = 0; worker < workers; worker++) {
            LeafdClient client = line.text("use").equals("client") ? Driver.newClient(line) : null;
            LeafdPool pool = client == null ? Driver.newPool(line) : null;
            shared.add(client == null ? pool : client);
            for (long thread = 0; thread < threads; thread++) {
                long number = worker * threads + thread;
                long share = ids / (workers * threads) + (number < ids % (workers * threads) ? 1 : 0);
                boolean local = thread % 2 == 1;
                all.add(new Thread(() -> issue(
                        number, share, () -> client != null ? of(client) : local ? ofLocal(pool) : of(pool))));
            }
        }
        all.forEach(Thread::start);
        for (Thread thread : all) {
            thread.join();
        }
        for (AutoCloseable closeable : shared) {
            closeable.close();
        }
        return Map.of("issued", Long.toString(issued.get()), "calls", calls.get(), "failed", failed.get(),
                "errors", errors);
    }

    private Source of(LeafdClient client) {
        boolean tagged = line.has("tag");
        return count -> {
            if (count > 1) {
                return (tagged ? client.nextMany(line.text("tag"), count) : client.snowflakes(count)).runs();
            }
            return List.of(new Run(tagged ? client.next(line.text("tag")) : client.snowflake(), 1));
        };
    }

    private static Source of(LeafdPool pool) {
        return count -> count > 1 ? pool.nextMany(count).runs() : List.of(new Run(pool.next(), 1));
    }

    private static Source ofLocal(LeafdPool pool) {
        LeafdPool.Local local = pool.local();
        return new Source() {
            @Override
            public List<Run> next(long count) throws InterruptedException {
                return count > 1 ? pool.nextMany(count).runs() : List.of(new Run(local.next(), 1));
            }

            @Override
            public void close() {
                local.close();
            }
        };
    }

    private interface Opening {
        Source open();
    }

    private void issue(long number, long share, Opening opening) {
        long batch = Math.max(1, line.number("batch"));
        try (Source source = opening.open(); RunFile file = new RunFile(Path.of(line.text("out")), number)) {
            for (long left = share; left > 0; left -= batch) {
                calls.incrementAndGet();
                try {
                    for (Run run : source.next(Math.min(batch, left))) {
                        file.add(run);
                        issued.addAndGet(run.count());
                    }
                } catch (RuntimeException failure) {
                    note(failure);
                }
            }
        } catch (Exception failure) {
            note(failure);
        }
    }

    private void note(Exception failure) {
        failed.incrementAndGet();
        synchronized (errors) {
            if (errors.size() < 10) {
                errors.add(String.valueOf(failure));
            }
        }
    }

    /** Pairs of first ID and count, joined where IDs are in a row. */
    private static final class RunFile implements AutoCloseable {
        private static final long MAX_COUNT = 0xffff_ffffL;

        private final OutputStream out;
        private long first;
        private long count;

        RunFile(Path folder, long number) throws IOException {
            out = new BufferedOutputStream(Files.newOutputStream(folder.resolve("java-" + number + ".runs")));
        }

        void add(Run run) {
            if (count > 0 && run.first() == first + count && count + run.count() <= MAX_COUNT) {
                count += run.count();
                return;
            }
            write();
            first = run.first();
            count = run.count();
        }

        private void write() {
            if (count == 0) {
                return;
            }
            ByteBuffer pair = ByteBuffer.allocate(12).order(ByteOrder.LITTLE_ENDIAN);
            try {
                out.write(pair.putLong(first).putInt((int) count).array());
            } catch (IOException failure) {
                throw new UncheckedIOException(failure);
            }
        }

        @Override
        public void close() throws IOException {
            write();
            out.close();
        }
    }
}
