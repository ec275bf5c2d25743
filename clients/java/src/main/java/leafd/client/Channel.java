package leafd.client;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import leafd.client.wire.MalformedResponseException;
import leafd.client.wire.Request;
import leafd.client.wire.Response;

/** A connection as bytes: frames in, requests out, never blocking. It knows no call. */
final class Channel implements AutoCloseable {
    private static final int OUT = 64 * 1024;
    private static final int IN = 64 * 1024;

    /** Requests to send. Whoever fills it calls {@link #flush}. */
    final ByteBuffer out = ByteBuffer.allocateDirect(OUT);

    private final SocketChannel socket;
    private final SelectionKey key;
    /** Always ready to be filled; its frames begin at {@link #start}. */
    private ByteBuffer in = ByteBuffer.allocateDirect(IN);
    private int start;

    private Channel(SocketChannel socket, SelectionKey key) {
        this.socket = socket;
        this.key = key;
    }

    static Channel connect(Path path, Selector selector) throws IOException {
        SocketChannel socket = SocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            socket.configureBlocking(false);
            if (!socket.connect(UnixDomainSocketAddress.of(path))) {
                // Unlike a TCP socket, this one is not being connected now: it has to be tried again.
                throw new IOException("the daemon's backlog is full");
            }
            return new Channel(socket, socket.register(selector, SelectionKey.OP_READ));
        } catch (IOException | RuntimeException failure) {
            socket.close();
            throw failure;
        }
    }

    /** Writes what the socket takes. */
    void flush() throws IOException {
        out.flip();
        try {
            while (out.hasRemaining() && socket.write(out) > 0) {
                // Until it takes no more.
            }
        } finally {
            out.compact();
        }
    }

    /** Whether nothing is left to send. */
    boolean isFlushed() {
        return out.position() == 0;
    }

    /** Wakes the selector when the socket can be written, if there is anything to write. */
    void selectInterest(boolean mayWrite) {
        int ops = SelectionKey.OP_READ | (mayWrite && !isFlushed() ? SelectionKey.OP_WRITE : 0);
        if (key.interestOps() != ops) {
            key.interestOps(ops);
        }
    }

    /** Reads once. Returns how many bytes came; -1 at the end of the stream. */
    int read() throws IOException {
        if (!in.hasRemaining()) {
            compact(in.capacity());
        }
        return socket.read(in);
    }

    /** Whether the last {@link #read} has left room, so that nothing more was there to be read. */
    boolean isDrained() {
        return in.hasRemaining();
    }

    /** The next message that has arrived in full; null if there is none. */
    Response next() throws MalformedResponseException {
        int available = in.position() - start;
        if (available < Request.HEADER) {
            return null;
        }
        int length = in.getInt(start);
        if (length < 0 || length > Response.MAX_BODY) {
            throw new MalformedResponseException("it announced a message of " + Integer.toUnsignedString(length)
                    + " bytes; at most " + Response.MAX_BODY + " are allowed");
        }
        int frame = Request.HEADER + length;
        if (available < frame) {
            if (start + frame > in.capacity()) {
                compact(Math.max(IN, frame));
            }
            return null;
        }
        Response response = Response.decode(in.slice(start + Request.HEADER, length));
        start += frame;
        if (start == in.position()) {
            in.clear();
            start = 0;
        }
        return response;
    }

    /** Moves the bytes to the front, of a larger buffer if need be. */
    private void compact(int capacity) {
        ByteBuffer unread = in.flip().position(start);
        if (capacity > in.capacity()) {
            in = ByteBuffer.allocateDirect(capacity).put(unread);
        } else {
            in.compact();
        }
        start = 0;
    }

    @Override
    public void close() {
        try {
            socket.close();
        } catch (IOException ignored) {
            // Nothing is lost with it.
        }
    }
}
