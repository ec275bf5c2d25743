package leafd.client;

import java.time.Instant;
import java.util.function.Function;
import leafd.client.wire.DaemonStatus;
import leafd.client.wire.Reply;
import leafd.client.wire.Request;

/**
 * A call with valid arguments: how to write it, as often as need be, and how to read its answer.
 *
 * @param <T> what the caller gets
 */
record CallSpec<T>(String name, FrameWriter writer, ReplyReader<T> reader) {
    private static final int MAX_TAG_CHARS = 128;
    private static final long MAX_COUNT = 0xffff_ffffL;

    interface FrameWriter {
        /** {@code maxCount} is the connection's limit on the IDs of one request. */
        byte[] frame(long id, long timeoutMs, long maxCount);
    }

    /** Reads a reply that is no error, or throws {@link LeafdException.ProtocolViolation}. */
    interface ReplyReader<T> {
        T read(Reply reply);
    }

    static CallSpec<Ids> segment(String tag, long count) {
        checkTag(tag);
        checkCount(count);
        return new CallSpec<>(
                "Segment",
                (id, timeoutMs, maxCount) -> Request.segment(id, tag, count, timeoutMs),
                reply -> ids(reply, count));
    }

    static CallSpec<Ids> snowflake(long count) {
        checkCount(count);
        return new CallSpec<>(
                "Snowflake",
                (id, timeoutMs, maxCount) -> Request.snowflake(id, count, timeoutMs),
                reply -> ids(reply, count));
    }

    /** For a pool: as many IDs as the connection allows, {@code wanted} at most; a null tag is snowflakes. */
    static CallSpec<Ids> lease(String tag, long wanted) {
        long[] asked = new long[1];
        FrameWriter writer = (id, timeoutMs, maxCount) -> {
            asked[0] = Math.min(wanted, maxCount);
            return tag == null
                    ? Request.snowflake(id, asked[0], timeoutMs)
                    : Request.segment(id, tag, asked[0], timeoutMs);
        };
        return new CallSpec<>(tag == null ? "Snowflake" : "Segment", writer, reply -> ids(reply, asked[0]));
    }

    static CallSpec<Instant> time() {
        return new CallSpec<>("Time", (id, timeoutMs, maxCount) -> Request.time(id), reply -> {
            long unixMs = expect(Reply.Time.class, reply).unixMs();
            if (unixMs < 0) {
                throw new LeafdException.ProtocolViolation("it sent a time that no clock shows");
            }
            return Instant.ofEpochMilli(unixMs);
        });
    }

    static CallSpec<DaemonStatus> status() {
        return new CallSpec<>("Status", (id, timeoutMs, maxCount) -> Request.status(id),
                reply -> expect(Reply.Status.class, reply).status());
    }

    <U> CallSpec<U> map(Function<T, U> after) {
        return new CallSpec<>(name, writer, reply -> after.apply(reader.read(reply)));
    }

    /** Throws {@link IllegalArgumentException} for a tag that the daemon would refuse or not even see. */
    static void checkTag(String tag) {
        if (tag.isEmpty()) {
            throw new IllegalArgumentException("the tag is empty; a tag has 1 to 128 characters");
        }
        int chars = tag.codePointCount(0, tag.length());
        if (chars > MAX_TAG_CHARS) {
            throw new IllegalArgumentException("the tag has " + chars + " characters; at most 128 are allowed");
        }
        tag.codePoints().forEach(c -> {
            if (Character.isISOControl(c)) {
                throw new IllegalArgumentException(
                        String.format("the tag contains the control character U+%04X; remove it", c));
            }
            // Encoding would turn it into a question mark, which is another tag.
            if (c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE) {
                throw new IllegalArgumentException(
                        String.format("the tag contains half of a surrogate pair, U+%04X; remove it", c));
            }
        });
    }

    /** Throws {@link IllegalArgumentException} for a count that no request can have. */
    static void checkCount(long count) {
        if (count < 1 || count > MAX_COUNT) {
            throw new IllegalArgumentException("the count is " + count + "; it has to be from 1 to 2^32 - 1");
        }
    }

    private static Ids ids(Reply reply, long count) {
        return Ids.check(expect(Reply.Ids.class, reply).runs(), count);
    }

    private static <R extends Reply> R expect(Class<R> kind, Reply reply) {
        if (!kind.isInstance(reply)) {
            throw new LeafdException.ProtocolViolation(
                    "it answered with " + reply.name() + " instead of " + kind.getSimpleName());
        }
        return kind.cast(reply);
    }
}
