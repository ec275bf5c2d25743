package leafd.client.wire;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

/**
 * A message from the daemon.
 *
 * @param id the ID of the request that it answers, unsigned; 0 if it answers none
 * @param reply what it says
 */
public record Response(long id, Reply reply) {
    /** The most bytes of a response's body. */
    public static final int MAX_BODY = 256 * 1024;

    private static final int RUN_BYTES = 12;

    /**
     * Decodes the body of a frame, which has to be one message and nothing else. Nothing is allocated for a
     * length before it is checked against the bytes that are left.
     *
     * @param body the body, from its position to its limit; its order does not matter
     * @return the message
     * @throws MalformedResponseException if the bytes are anything else
     */
    public static Response decode(ByteBuffer body) throws MalformedResponseException {
        ByteBuffer in = body.slice().order(ByteOrder.LITTLE_ENDIAN);
        try {
            Response response = new Response(in.getLong(), reply(in));
            if (in.hasRemaining()) {
                throw new MalformedResponseException(in.remaining() + " bytes are left over");
            }
            return response;
        } catch (BufferUnderflowException end) {
            throw new MalformedResponseException("the body ends within a field");
        }
    }

    private static Reply reply(ByteBuffer in) throws MalformedResponseException {
        int number = in.getInt();
        return switch (number) {
            case 0 -> new Reply.Error(u16(in), u32(in), in.getLong(), text(in));
            case 1 -> new Reply.Hello(u16(in), u32(in), u32(in));
            case 2 -> new Reply.Ids(runs(in));
            case 3 -> new Reply.Time(in.getLong());
            case 4 -> new Reply.Status(status(in));
            case 6 -> new Reply.Goodbye();
            // 5 and 7 answer calls that this client does not make.
            default -> throw new MalformedResponseException("unknown reply " + Integer.toUnsignedString(number));
        };
    }

    private static List<Run> runs(ByteBuffer in) throws MalformedResponseException {
        Run first = run(in);
        long more = in.getLong();
        if (more == 0) {
            return List.of(first);
        }
        if (more < 0 || more > in.remaining() / RUN_BYTES) {
            throw new MalformedResponseException("a list is longer than the body");
        }
        List<Run> runs = new ArrayList<>((int) more + 1);
        runs.add(first);
        for (long i = 0; i < more; i++) {
            runs.add(run(in));
        }
        return runs;
    }

    private static Run run(ByteBuffer in) {
        return new Run(in.getLong(), u32(in));
    }

    private static DaemonStatus status(ByteBuffer in) throws MalformedResponseException {
        return new DaemonStatus(
                text(in), u32(in), in.getLong(), u32(in), in.getLong(), text(in), segments(in), snowflake(in));
    }

    private static DaemonStatus.Segments segments(ByteBuffer in) throws MalformedResponseException {
        return new DaemonStatus.Segments(
                text(in), text(in), in.getLong(), in.getLong(), in.getLong(), in.getLong());
    }

    private static DaemonStatus.Snowflake snowflake(ByteBuffer in) throws MalformedResponseException {
        return new DaemonStatus.Snowflake(
                state(in),
                optional(in),
                text(in),
                text(in),
                in.getLong(),
                in.getLong(),
                in.getLong(),
                in.getLong(),
                text(in),
                optional(in),
                text(in),
                optional(in),
                optional(in),
                u32(in));
    }

    private static DaemonStatus.State state(ByteBuffer in) throws MalformedResponseException {
        int number = in.getInt();
        return switch (number) {
            case 0 -> new DaemonStatus.State.Serving();
            case 1 -> new DaemonStatus.State.ClockBehind(in.getLong());
            case 2 -> new DaemonStatus.State.Refused(text(in));
            case 3 -> new DaemonStatus.State.Starting(text(in));
            default -> throw new MalformedResponseException("unknown state " + Integer.toUnsignedString(number));
        };
    }

    private static int u16(ByteBuffer in) {
        return Short.toUnsignedInt(in.getShort());
    }

    private static long u32(ByteBuffer in) {
        return Integer.toUnsignedLong(in.getInt());
    }

    private static OptionalLong optional(ByteBuffer in) throws MalformedResponseException {
        byte option = in.get();
        return switch (option) {
            case 0 -> OptionalLong.empty();
            case 1 -> OptionalLong.of(in.getLong());
            default -> throw new MalformedResponseException("an option byte is " + (option & 0xff));
        };
    }

    private static String text(ByteBuffer in) throws MalformedResponseException {
        long length = in.getLong();
        if (length < 0 || length > in.remaining()) {
            throw new MalformedResponseException("a text is longer than the body");
        }
        ByteBuffer bytes = in.slice(in.position(), (int) length);
        in.position(in.position() + (int) length);
        try {
            // A decoder of its own reports invalid bytes; new String(…) would replace them.
            return StandardCharsets.UTF_8.newDecoder().decode(bytes).toString();
        } catch (CharacterCodingException invalid) {
            throw new MalformedResponseException("a text is not UTF-8");
        }
    }
}
