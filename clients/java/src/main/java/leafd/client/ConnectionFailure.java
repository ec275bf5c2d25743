package leafd.client;

import java.io.IOException;
import java.net.BindException;
import java.nio.file.Path;
import leafd.client.wire.Reply;

/**
 * Why connecting failed or a connection ended.
 *
 * @param error what callers get for it
 * @param fatal whether another attempt would fail in the same way, so that callers get the error at once
 * @param retryAfterMs how long the daemon asks to wait; 0 if it does not
 */
record ConnectionFailure(LeafdException error, boolean fatal, long retryAfterMs) {
    static ConnectionFailure io(Path socket, IOException cause) {
        // The JDK throws this for EACCES (since 21 for EPERM too). Its other reasons do not occur in connect.
        boolean denied = cause instanceof BindException;
        String why = cause.getMessage() == null ? cause.toString() : cause.getMessage();
        return new ConnectionFailure(new LeafdException.Unavailable(socket, why, !denied, cause), denied, 0);
    }

    static ConnectionFailure lost(Path socket, String why) {
        return new ConnectionFailure(new LeafdException.Unavailable(socket, why, true, null), false, 0);
    }

    static ConnectionFailure refused(Reply.Error reply) {
        LeafdException.Refused error = new LeafdException.Refused(reply);
        return new ConnectionFailure(error, !error.isTemporary(), reply.retryAfterMs());
    }

    static ConnectionFailure protocol(LeafdException.ProtocolViolation error) {
        return new ConnectionFailure(error, true, 0);
    }
}
