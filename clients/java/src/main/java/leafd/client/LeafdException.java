package leafd.client;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import leafd.client.wire.ErrorCode;
import leafd.client.wire.Reply;

/**
 * Why a call failed. The caller got no ID.
 *
 * <p>An invalid argument is an {@link IllegalArgumentException} instead, as everywhere in Java.
 */
public abstract class LeafdException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    // One of the nested classes, and nobody else's.
    private LeafdException(String message, Throwable cause) {
        super(message, cause);
    }

    private LeafdException(String message) {
        super(message);
    }

    /**
     * Whether the same call may succeed later without anyone changing anything.
     *
     * @return true if a retry can help
     */
    public boolean isTemporary() {
        return false;
    }

    /**
     * How long the daemon asks to wait before the next try.
     *
     * @return the time to wait, if the daemon named one
     */
    public Optional<Duration> retryAfter() {
        return Optional.empty();
    }

    /** The same failure with the stack of the thread that throws it. */
    abstract LeafdException here();

    /** The daemon answered with an error. */
    public static final class Refused extends LeafdException {
        private static final long serialVersionUID = 1L;

        /** The number on the wire. */
        private final int number;
        /** How long to wait; 0 if unknown. */
        private final long retryAfterMs;
        /** The number that belongs to the code. */
        private final long detail;
        /** The daemon's text. */
        private final String reason;

        Refused(Reply.Error error) {
            this(error.code(), error.retryAfterMs(), error.detail(), error.message());
        }

        private Refused(int number, long retryAfterMs, long detail, String reason) {
            super("leafd refused: " + number + " " + ErrorCode.of(number).label() + ": " + reason);
            this.number = number;
            this.retryAfterMs = retryAfterMs;
            this.detail = detail;
            this.reason = reason;
        }

        /**
         * Returns which error it is.
         *
         * @return the code, {@link ErrorCode#UNKNOWN} if the daemon is newer than this client
         */
        public ErrorCode code() {
            return ErrorCode.of(number);
        }

        /**
         * Returns the number of the error, also if {@link #code()} is unknown.
         *
         * @return the number
         */
        public int number() {
            return number;
        }

        /**
         * Returns the number that belongs to the code, such as a limit or a distance.
         *
         * @return the detail, unsigned; 0 if the code has none
         */
        public long detail() {
            return detail;
        }

        /**
         * Returns the daemon's own text. Its wording may change.
         *
         * @return a text for logs, whose wording may change
         */
        public String reason() {
            return reason;
        }

        @Override
        public boolean isTemporary() {
            return ErrorCode.isTemporary(number);
        }

        @Override
        public Optional<Duration> retryAfter() {
            return retryAfterMs == 0 ? Optional.empty() : Optional.of(Duration.ofMillis(retryAfterMs));
        }

        long retryAfterMs() {
            return retryAfterMs;
        }

        @Override
        LeafdException here() {
            return new Refused(number, retryAfterMs, detail, reason);
        }
    }

    /** There was no connection when the timeout passed, or this user may not open the socket. */
    public static final class Unavailable extends LeafdException {
        private static final long serialVersionUID = 1L;

        /** Whether a retry can help. */
        private final boolean temporary;

        Unavailable(Path socket, String why, boolean temporary, Throwable cause) {
            this("leafd is not reachable at " + socket + ": " + why, temporary, cause);
        }

        /** Something in this process is in the way. */
        Unavailable(String message, Throwable cause) {
            this(message + ": " + cause, true, cause);
        }

        private Unavailable(String message, boolean temporary, Throwable cause) {
            super(message, cause);
            this.temporary = temporary;
        }

        @Override
        public boolean isTemporary() {
            return temporary;
        }

        @Override
        LeafdException here() {
            return new Unavailable(getMessage(), temporary, getCause());
        }
    }

    /** The client was connected, but the daemon did not answer in time. */
    public static final class DeadlineExceeded extends LeafdException {
        private static final long serialVersionUID = 1L;

        DeadlineExceeded(String what, Duration timeout) {
            this("leafd did not answer " + what + " within " + timeout.toMillis() + " ms");
        }

        private DeadlineExceeded(String message) {
            super(message);
        }

        @Override
        public boolean isTemporary() {
            return true;
        }

        @Override
        LeafdException here() {
            return new DeadlineExceeded(getMessage());
        }
    }

    /** The peer is not a leafd of a known version. Nothing in the offending message was used. */
    public static final class ProtocolViolation extends LeafdException {
        private static final long serialVersionUID = 1L;

        /** How the peer broke the protocol. */
        private final String how;

        ProtocolViolation(String how) {
            super("the peer is not a leafd of a known version: " + how);
            this.how = how;
        }

        @Override
        LeafdException here() {
            return new ProtocolViolation(how);
        }
    }

    /** The client or pool was closed, before the call or during it. */
    public static final class Closed extends LeafdException {
        private static final long serialVersionUID = 1L;

        /** What is closed. */
        private final String what;

        Closed(String what) {
            super("this " + what + " is closed");
            this.what = what;
        }

        @Override
        LeafdException here() {
            return new Closed(what);
        }
    }
}
