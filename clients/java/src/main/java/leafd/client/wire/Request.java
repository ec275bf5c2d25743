package leafd.client.wire;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * Encodes requests. Each method returns a whole frame: the header, big-endian, then the body,
 * little-endian.
 */
public final class Request {
    /** The newest version of the protocol that this client speaks, and the only one. */
    public static final int VERSION = 1;
    /** The bytes of the header, which holds the length of the body. */
    public static final int HEADER = 4;

    private static final byte[] MAGIC = {'L', 'E', 'A', 'F'};
    private static final int HELLO = 0;
    private static final int SEGMENT = 1;
    private static final int SNOWFLAKE = 2;
    private static final int TIME = 3;
    private static final int STATUS = 4;

    private Request() {}

    /**
     * The first request of a connection.
     *
     * @param id the request ID, not 0
     * @param version the newest version that the client speaks
     * @return the frame
     */
    public static byte[] hello(long id, int version) {
        return frame(id, HELLO, MAGIC.length + 2).put(MAGIC).putShort((short) version).array();
    }

    /**
     * Asks for IDs of a tag.
     *
     * @param id the request ID, not 0
     * @param tag the tag, 1 to 128 characters
     * @param count how many IDs, an unsigned 32-bit number
     * @param timeoutMs the longest wait in the daemon, an unsigned 32-bit number; 0 is the daemon's default
     * @return the frame
     */
    public static byte[] segment(long id, String tag, long count, long timeoutMs) {
        byte[] text = tag.getBytes(StandardCharsets.UTF_8);
        ByteBuffer frame = frame(id, SEGMENT, 8 + text.length + 8).putLong(text.length).put(text);
        return frame.putInt((int) count).putInt((int) timeoutMs).array();
    }

    /**
     * Asks for snowflake IDs.
     *
     * @param id the request ID, not 0
     * @param count how many IDs, an unsigned 32-bit number
     * @param timeoutMs the longest wait in the daemon, an unsigned 32-bit number; 0 is the daemon's default
     * @return the frame
     */
    public static byte[] snowflake(long id, long count, long timeoutMs) {
        return frame(id, SNOWFLAKE, 8).putInt((int) count).putInt((int) timeoutMs).array();
    }

    /**
     * Asks for the clock of the daemon's host.
     *
     * @param id the request ID, not 0
     * @return the frame
     */
    public static byte[] time(long id) {
        return frame(id, TIME, 0).array();
    }

    /**
     * Asks for the state of the daemon.
     *
     * @param id the request ID, not 0
     * @return the frame
     */
    public static byte[] status(long id) {
        return frame(id, STATUS, 0).array();
    }

    private static ByteBuffer frame(long id, int call, int fields) {
        int body = 12 + fields;
        ByteBuffer frame = ByteBuffer.allocate(HEADER + body).putInt(body);
        return frame.order(ByteOrder.LITTLE_ENDIAN).putLong(id).putInt(call);
    }
}
