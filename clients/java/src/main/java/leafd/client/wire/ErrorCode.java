package leafd.client.wire;

import java.util.HashMap;
import java.util.Map;

/**
 * The daemon's numbered errors. A number keeps its meaning for ever.
 *
 * <p>1xx: the bytes break the protocol. 2xx: the call asks for something impossible or forbidden. 3xx: not
 * now; the same call may succeed later.
 */
public enum ErrorCode {
    /** The magic of {@code Hello} is wrong. */
    BAD_MAGIC(100, "BadMagic"),
    /** The daemon does not speak the client's version; {@code detail} is the newest that it speaks. */
    VERSION_UNSUPPORTED(101, "VersionUnsupported"),
    /** A call came before {@code Hello}. */
    HELLO_EXPECTED(102, "HelloExpected"),
    /** The message does not decode. */
    MALFORMED(103, "Malformed"),
    /** The daemon does not have this call. */
    UNKNOWN_CALL(104, "UnknownCall"),
    /** The frame is too long; {@code detail} is the limit in bytes. */
    FRAME_TOO_LARGE(105, "FrameTooLarge"),
    /** The count is too high; {@code detail} is the highest valid value, of a request or of a quota. */
    BAD_COUNT(200, "BadCount"),
    /** The tag is empty, too long, or holds control characters. */
    BAD_TAG(201, "BadTag"),
    /** The store has no such tag. */
    UNKNOWN_TAG(202, "UnknownTag"),
    /** The tag exists already. */
    TAG_EXISTS(203, "TagExists"),
    /** The step is out of range; {@code detail} is the limit. */
    BAD_STEP(204, "BadStep"),
    /** The description is too long. */
    BAD_DESCRIPTION(205, "BadDescription"),
    /** The daemon's rules do not allow this; {@code detail} is the caller's user ID. */
    FORBIDDEN(206, "Forbidden"),
    /** The daemon is not configured for this call. */
    NOT_CONFIGURED(207, "NotConfigured"),
    /** The daemon has as many tags in use as it may; {@code detail} is the limit. */
    TOO_MANY_TAGS(208, "TooManyTags"),
    /** The registry has no such worker ID. */
    UNKNOWN_WORKER(209, "UnknownWorker"),
    /** The owner of the worker ID is live, or not known to be gone. */
    WORKER_IN_USE(210, "WorkerInUse"),
    /** The worker ID has another owner. */
    WRONG_OWNER(211, "WrongOwner"),
    /** A text is no public ID, or a number is no ID; {@code detail} is its place in the list. */
    BAD_PUBLIC_ID(212, "BadPublicId"),
    /** The daemon or this user has too many connections; {@code detail} is the limit. */
    TOO_MANY_CONNECTIONS(300, "TooManyConnections"),
    /** Too many requests wait on this connection or for this user; {@code detail} is the limit. */
    TOO_MANY_IN_FLIGHT(301, "TooManyInFlight"),
    /** Memory is drained and the store gave no range in time. */
    STORE_UNAVAILABLE(302, "StoreUnavailable"),
    /** The daemon could not write its state in time. */
    STATE_UNAVAILABLE(303, "StateUnavailable"),
    /** The daemon's clock is behind the times already used; {@code detail} is the distance in ms. */
    CLOCK_BACKWARDS(304, "ClockBackwards"),
    /** The daemon has no worker ID that it may use. */
    WORKER_UNAVAILABLE(305, "WorkerUnavailable"),
    /** The daemon's clock is past the end of the layout. An operator has to act. */
    TIME_EXHAUSTED(306, "TimeExhausted"),
    /** The tag's row is unusable. An operator has to act. */
    BAD_ROW(307, "BadRow"),
    /** The request was too large for its deadline. */
    DEADLINE_EXCEEDED(308, "DeadlineExceeded"),
    /** The daemon is stopping. The client repeats the call, so callers never see this. */
    SHUTTING_DOWN(309, "ShuttingDown"),
    /** Too many requests wait for this tag; {@code detail} is the limit. */
    TOO_MANY_WAITING(310, "TooManyWaiting"),
    /** The registry of worker IDs does not answer. */
    REGISTRY_UNAVAILABLE(311, "RegistryUnavailable"),
    /** The quota of the user or the tag is used up; {@code detail} is its IDs per second. */
    QUOTA_EXCEEDED(312, "QuotaExceeded"),
    /** A number that this version of the client does not list. The daemon is newer. */
    UNKNOWN(-1, "Unknown");

    private static final Map<Integer, ErrorCode> BY_NUMBER = new HashMap<>();

    static {
        for (ErrorCode code : values()) {
            BY_NUMBER.put(code.number, code);
        }
    }

    private final int number;
    private final String label;

    ErrorCode(int number, String label) {
        this.number = number;
        this.label = label;
    }

    /**
     * Finds the code with a number.
     *
     * @param number the number on the wire
     * @return the code, {@link #UNKNOWN} if this version of the client does not list it
     */
    public static ErrorCode of(int number) {
        return BY_NUMBER.getOrDefault(number, UNKNOWN);
    }

    /**
     * Whether the same call may succeed later although nobody changes anything. An unknown number is treated
     * like its class.
     *
     * @param number the number on the wire
     * @return true for 3xx except 306 and 307, which last until an operator acts
     */
    public static boolean isTemporary(int number) {
        return number >= 300 && number < 400 && number != TIME_EXHAUSTED.number && number != BAD_ROW.number;
    }

    /**
     * Returns the number on the wire.
     *
     * @return the number, -1 for {@link #UNKNOWN}
     */
    public int number() {
        return number;
    }

    /**
     * Returns the name that leafd's documentation and logs use, such as {@code UnknownTag}.
     *
     * @return the name
     */
    public String label() {
        return label;
    }
}
