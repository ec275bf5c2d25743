import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Function;
import leafd.client.Layout;
import leafd.client.LeafdClient;
import leafd.client.LeafdException;
import leafd.client.LeafdOptions;
import leafd.client.LeafdPool;
import leafd.client.PoolStats;
import leafd.client.wire.DaemonStatus;
import leafd.client.wire.MalformedResponseException;
import leafd.client.wire.Reply;
import leafd.client.wire.Request;
import leafd.client.wire.Response;
import leafd.client.wire.Run;

/**
 * The driver of the conformance suite for Java. The calls of a client use its futures, so that {@code cancel}
 * can cancel them; the calls of a pool and of a storm block, in threads of their own.
 */
public final class Driver {
    private final Map<String, LeafdClient> clients = new ConcurrentHashMap<>();
    private final Map<String, LeafdPool> pools = new ConcurrentHashMap<>();
    /** What {@code cancel} can cancel, by the ID of its line. */
    private final Map<String, Future<?>> running = new ConcurrentHashMap<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        new Driver().run();
    }

    private void run() throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = lines.readLine()) != null) {
            if (!line.isBlank()) {
                Line request = new Line(Json.parse(line));
                try {
                    handle(request);
                } catch (Throwable failure) {
                    answer(request, error(failure));
                }
            }
        }
        clients.values().forEach(LeafdClient::close);
        pools.values().forEach(LeafdPool::close);
        out.flush();
        System.exit(0);
    }

    private void handle(Line line) throws Exception {
        switch (line.text("op")) {
            case "about" -> ok(line, Map.of("language", "java", "mode", "sync", "concurrent", true, "forks", false,
                    "pools", true, "cancels", true, "version", System.getProperty("java.version")));
            case "socket_path" -> ok(line, Map.of("path", LeafdOptions.defaultSocket().toString()));
            case "encode" -> ok(line, encode(line));
            case "decode_response" -> ok(line, decode(line));
            case "decode_id" -> ok(line, decodeId(line));
            case "open" -> {
                clients.put(line.text("client"), LeafdClient.create(options(line)));
                ok(line, Map.of());
            }
            case "close" -> {
                client(line, false).close();
                ok(line, Map.of());
            }
            case "next" -> call(line, client(line, true).nextAsync(line.text("tag")), Driver::one);
            case "next_many" -> call(line,
                    client(line, true).nextManyAsync(line.text("tag"), line.number("count")),
                    ids -> runs(ids.runs()));
            case "snowflake" -> call(line, client(line, true).snowflakeAsync(), Driver::one);
            case "snowflakes" -> call(line, client(line, true).snowflakesAsync(line.number("count")),
                    ids -> runs(ids.runs()));
            case "time" -> call(line, client(line, true).timeAsync(),
                    time -> Map.of("unix_ms", Long.toString(time.toEpochMilli())));
            case "status" -> call(line, client(line, true).statusAsync(), Driver::status);
            case "cancel" -> {
                Future<?> target = running.get(line.value("target"));
                if (target != null) {
                    target.cancel(true);
                }
                ok(line, Map.of());
            }
            case "pool_open" -> {
                pools.put(line.text("pool"), newPool(line));
                ok(line, Map.of());
            }
            case "pool_next" -> block(line, () -> one(line.has("timeout_ms")
                    ? pool(line).next(line.timeout())
                    : pool(line).next()));
            case "pool_try_next" -> {
                OptionalLong id = pool(line).tryNext();
                ok(line, id.isPresent() ? one(id.getAsLong()) : runs(List.of()));
            }
            case "pool_next_many" -> block(line, () -> runs((line.has("timeout_ms")
                    ? pool(line).nextMany(line.number("count"), line.timeout())
                    : pool(line).nextMany(line.number("count"))).runs()));
            case "pool_stats" -> ok(line, stats(pool(line).stats()));
            case "pool_close" -> {
                pool(line).close();
                ok(line, Map.of());
            }
            case "storm" -> block(line, () -> new Storm(line).run());
            default -> answer(line, Map.of("error",
                    Map.of("kind", "unsupported", "message", "unknown op", "temporary", false)));
        }
    }

    // Clients and pools.

    private static LeafdOptions options(Line line) {
        LeafdOptions options = line.has("socket")
                ? LeafdOptions.at(Path.of(line.text("socket")))
                : LeafdOptions.defaults();
        if (line.has("timeout_ms")) {
            options = options.timeout(line.timeout());
        }
        if (line.has("backoff_min_ms") || line.has("backoff_max_ms")) {
            options = options.backoff(
                    Duration.ofMillis(line.has("backoff_min_ms") ? line.number("backoff_min_ms") : 5),
                    Duration.ofMillis(line.has("backoff_max_ms") ? line.number("backoff_max_ms") : 500));
        }
        return options;
    }

    private LeafdClient client(Line line, boolean withTimeout) {
        LeafdClient client = clients.get(line.text("client"));
        if (client == null) {
            throw new IllegalArgumentException("no client " + line.text("client"));
        }
        return withTimeout && line.has("timeout_ms") ? client.withTimeout(line.timeout()) : client;
    }

    static LeafdPool newPool(Line line) {
        LeafdPool.Builder builder = line.has("tag") ? LeafdPool.tag(line.text("tag")) : LeafdPool.snowflakes();
        builder.options(options(line));
        if (line.has("min_chunk")) {
            builder.minChunk(line.number("min_chunk"));
        }
        if (line.has("max_chunk")) {
            builder.maxChunk(line.number("max_chunk"));
        }
        if (line.has("max_age_ms")) {
            builder.maxAge(Duration.ofMillis(line.number("max_age_ms")));
        }
        return builder.build();
    }

    static LeafdClient newClient(Line line) {
        return LeafdClient.create(options(line));
    }

    private LeafdPool pool(Line line) {
        LeafdPool pool = pools.get(line.text("pool"));
        if (pool == null) {
            throw new IllegalArgumentException("no pool " + line.text("pool"));
        }
        return pool;
    }

    // Answers.

    private <T> void call(Line line, CompletableFuture<T> result, Function<T, Object> fields) {
        running.put(line.value("id"), result);
        result.whenComplete((value, failure) -> {
            running.remove(line.value("id"));
            answer(line, failure == null ? Map.of("ok", fields.apply(value)) : error(failure));
        });
    }

    interface Blocking {
        Object call() throws Exception;
    }

    private void block(Line line, Blocking body) {
        running.put(line.value("id"), threads.submit(() -> {
            try {
                answer(line, Map.of("ok", body.call()));
            } catch (Throwable failure) {
                answer(line, error(failure));
            } finally {
                running.remove(line.value("id"));
            }
        }));
    }

    private void ok(Line line, Object fields) {
        answer(line, Map.of("ok", fields));
    }

    private synchronized void answer(Line line, Map<String, Object> answer) {
        Map<String, Object> whole = new LinkedHashMap<>();
        whole.put("id", new Json.Number(line.value("id")));
        whole.putAll(answer);
        out.println(Json.write(whole));
        out.flush();
    }

    private static Map<String, Object> error(Throwable failure) {
        Throwable error = failure instanceof CompletionException && failure.getCause() != null
                ? failure.getCause()
                : failure;
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("kind", kind(error));
        fields.put("message", String.valueOf(error.getMessage()));
        fields.put("temporary", error instanceof LeafdException known && known.isTemporary());
        if (error instanceof LeafdException.Refused refused) {
            fields.put("number", refused.number());
            fields.put("name", refused.code().label());
            fields.put("retry_after_ms", refused.retryAfter().map(Duration::toMillis).orElse(0L));
            fields.put("detail", Long.toUnsignedString(refused.detail()));
        }
        return Map.of("error", fields);
    }

    private static String kind(Throwable error) {
        if (error instanceof LeafdException.Refused) {
            return "refused";
        } else if (error instanceof LeafdException.Unavailable) {
            return "unavailable";
        } else if (error instanceof LeafdException.DeadlineExceeded) {
            return "deadline";
        } else if (error instanceof LeafdException.ProtocolViolation || error instanceof MalformedResponseException) {
            return "protocol";
        } else if (error instanceof LeafdException.Closed) {
            return "closed";
        } else if (error instanceof CancellationException || error instanceof InterruptedException) {
            return "cancelled";
        } else if (error instanceof IllegalArgumentException) {
            return "invalid";
        }
        error.printStackTrace();
        return "bug in the driver: " + error;
    }

    private static Object one(long id) {
        return runs(List.of(new Run(id, 1)));
    }

    private static Object runs(List<Run> runs) {
        List<Object> list = new ArrayList<>();
        runs.forEach(run -> list.add(List.of(Long.toString(run.first()), run.count())));
        return Map.of("runs", list);
    }

    private static Object stats(PoolStats stats) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("issued", Long.toString(stats.issued()));
        fields.put("leased", Long.toString(stats.leased()));
        fields.put("held", Long.toString(stats.held()));
        fields.put("lost", Long.toString(stats.lost()));
        fields.put("refills", Long.toString(stats.refills()));
        fields.put("failures", Long.toString(stats.failures()));
        fields.put("waits", Long.toString(stats.waits()));
        fields.put("chunk", Long.toString(stats.chunk()));
        return fields;
    }

    // The protocol as data.

    private static final Object UNSUPPORTED = Map.of("unsupported", true);

    private static Object encode(Line line) {
        Line fields = new Line(line.get("fields"));
        long id = Long.parseUnsignedLong(line.value("request_id"));
        byte[] frame = switch (line.text("message")) {
            case "Hello" -> Request.hello(id, (int) fields.number("version"));
            case "Segment" -> Request.segment(
                    id, fields.text("tag"), fields.number("count"), fields.number("timeout_ms"));
            case "Snowflake" -> Request.snowflake(id, fields.number("count"), fields.number("timeout_ms"));
            case "Time" -> Request.time(id);
            case "Status" -> Request.status(id);
            default -> null;
        };
        return frame == null ? UNSUPPORTED : Map.of("hex", HexFormat.of().formatHex(frame));
    }

    private static Object decode(Line line) throws MalformedResponseException {
        byte[] frame = HexFormat.of().parseHex(line.text("hex").replace(" ", ""));
        ByteBuffer bytes = ByteBuffer.wrap(frame);
        if (frame.length < Request.HEADER || bytes.getInt() != bytes.remaining()) {
            throw new MalformedResponseException("the header does not give the length of the body");
        }
        int reply = frame.length < 16 ? -1 : frame[12];
        if (reply == 5 || reply == 7) {
            return UNSUPPORTED;
        }
        Response response = Response.decode(bytes);
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("message", response.reply().name());
        answer.put("request_id", Long.toUnsignedString(response.id()));
        answer.put("fields", fields(response.reply()));
        return answer;
    }

    private static Object fields(Reply reply) {
        Map<String, Object> fields = new LinkedHashMap<>();
        if (reply instanceof Reply.Error error) {
            fields.put("code", error.code());
            fields.put("retry_after_ms", error.retryAfterMs());
            fields.put("detail", Long.toUnsignedString(error.detail()));
            fields.put("message", error.message());
        } else if (reply instanceof Reply.Hello hello) {
            fields.put("version", hello.version());
            fields.put("max_count", hello.maxCount());
            fields.put("max_in_flight", hello.maxInFlight());
        } else if (reply instanceof Reply.Ids ids) {
            fields.put("first", run(ids.runs().get(0)));
            fields.put("more", ids.runs().stream().skip(1).map(Driver::run).toList());
        } else if (reply instanceof Reply.Time time) {
            fields.put("unix_ms", Long.toUnsignedString(time.unixMs()));
        } else if (reply instanceof Reply.Status status) {
            return status(status.status());
        }
        return fields;
    }

    private static Object run(Run run) {
        return Map.of("first", Long.toUnsignedString(run.first()), "count", run.count());
    }

    private static Object status(DaemonStatus status) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("version", status.version());
        fields.put("pid", status.pid());
        fields.put("uptime_ms", u64(status.uptimeMs()));
        fields.put("connections", status.connections());
        fields.put("requests", u64(status.requests()));
        fields.put("state_dir", status.stateDir());
        DaemonStatus.Segments segments = status.segments();
        Map<String, Object> inner = new LinkedHashMap<>();
        inner.put("store", segments.store());
        inner.put("store_error", segments.storeError());
        inner.put("tags", u64(segments.tags()));
        inner.put("waiting", u64(segments.waiting()));
        inner.put("issued", u64(segments.issued()));
        inner.put("leases", u64(segments.leases()));
        fields.put("segments", inner);
        DaemonStatus.Snowflake snowflake = status.snowflake();
        inner = new LinkedHashMap<>();
        inner.put("state", state(snowflake.state()));
        inner.put("worker", optional(snowflake.worker(), true));
        inner.put("registry", snowflake.registry());
        inner.put("layout", snowflake.layout());
        inner.put("ceiling_unix_ms", u64(snowflake.ceilingUnixMs()));
        inner.put("last_unix_ms", u64(snowflake.lastUnixMs()));
        inner.put("clock_unix_ms", u64(snowflake.clockUnixMs()));
        inner.put("issued", u64(snowflake.issued()));
        inner.put("identity", snowflake.identity());
        inner.put("last_report_ms_ago", optional(snowflake.lastReportMsAgo(), true));
        inner.put("registry_error", snowflake.registryError());
        inner.put("limit_unix_ms", optional(snowflake.limitUnixMs(), true));
        inner.put("clock_offset_ms", optional(snowflake.clockOffsetMs(), false));
        inner.put("peers", snowflake.peers());
        fields.put("snowflake", inner);
        return fields;
    }

    private static Object state(DaemonStatus.State state) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("variant", state.getClass().getSimpleName());
        if (state instanceof DaemonStatus.State.ClockBehind behind) {
            fields.put("behind_ms", u64(behind.behindMs()));
        } else if (state instanceof DaemonStatus.State.Refused refused) {
            fields.put("reason", refused.reason());
        } else if (state instanceof DaemonStatus.State.Starting starting) {
            fields.put("reason", starting.reason());
        }
        return fields;
    }

    private static String u64(long number) {
        return Long.toUnsignedString(number);
    }

    private static Object optional(OptionalLong number, boolean unsigned) {
        if (number.isEmpty()) {
            return null;
        }
        return unsigned ? u64(number.getAsLong()) : Long.toString(number.getAsLong());
    }

    private static Object decodeId(Line line) {
        Layout.Parts parts = Layout.parse(line.text("layout")).decode(Long.parseUnsignedLong(line.value("value")));
        return Map.of("unix_ms", u64(parts.unixMs()), "worker", u64(parts.worker()),
                "sequence", u64(parts.sequence()));
    }

    /** A request of the runner. */
    static final class Line {
        private final Map<?, ?> fields;

        Line(Object json) {
            fields = (Map<?, ?>) json;
        }

        Object get(String name) {
            return fields.get(name);
        }

        boolean has(String name) {
            return fields.get(name) != null;
        }

        String text(String name) {
            Object value = fields.get(name);
            if (value instanceof String text) {
                return text;
            }
            throw new IllegalArgumentException("the field " + name + " is no text: " + value);
        }

        /** A text, or a number as its text. */
        String value(String name) {
            Object value = fields.get(name);
            return value instanceof Json.Number number ? number.text() : text(name);
        }

        long number(String name) {
            return Long.parseLong(value(name));
        }

        Duration timeout() {
            return Duration.ofMillis(number("timeout_ms"));
        }
    }
}
