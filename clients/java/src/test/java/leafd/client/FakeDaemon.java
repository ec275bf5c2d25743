package leafd.client;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import leafd.client.wire.Run;

/** A daemon that says what the test tells it to say, in the thread of the test. */
final class FakeDaemon implements AutoCloseable {
    final Path socket;
    private final Path folder;
    private ServerSocketChannel listener;

    FakeDaemon() throws IOException {
        folder = Files.createTempDirectory("leafd-test");
        socket = folder.resolve("s");
        listen();
    }

    void listen() throws IOException {
        listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        listener.bind(UnixDomainSocketAddress.of(socket));
    }

    /** As a daemon that has ended: connecting fails. */
    void stopListening() throws IOException {
        listener.close();
        Files.deleteIfExists(socket);
    }

    /** A short timeout makes a test of a deadline short. Other tests must not depend on it. */
    LeafdOptions options() {
        return LeafdOptions.at(socket).timeout(Duration.ofSeconds(20));
    }

    /** Waits for a connection. */
    Peer accept() throws IOException {
        return new Peer(listener.accept());
    }

    /** Waits for a connection and answers its Hello. */
    Peer greet() throws IOException {
        return greet(1024, 100_000);
    }

    Peer greet(int maxInFlight, int maxCount) throws IOException {
        Peer peer = accept();
        peer.send(hello(peer.read().id, 1, maxCount, maxInFlight));
        return peer;
    }

    @Override
    public void close() throws IOException {
        stopListening();
        Files.delete(folder);
    }

    /** A request, as far as tests look at it. */
    static final class Asked {
        final long id;
        final int call;
        final int count;
        final int timeoutMs;

        Asked(ByteBuffer body) {
            id = body.getLong();
            call = body.getInt();
            if (call == 1) {
                body.position(body.position() + 8 + (int) body.getLong(body.position()));
            }
            boolean hasCount = call == 1 || call == 2;
            count = hasCount ? body.getInt() : 0;
            timeoutMs = hasCount ? body.getInt() : 0;
        }
    }

    static final class Peer implements AutoCloseable {
        private final SocketChannel channel;

        Peer(SocketChannel channel) {
            this.channel = channel;
        }

        Asked read() throws IOException {
            int length = exactly(4).getInt();
            return new Asked(exactly(length).order(ByteOrder.LITTLE_ENDIAN));
        }

        private ByteBuffer exactly(int length) throws IOException {
            ByteBuffer bytes = ByteBuffer.allocate(length);
            while (bytes.hasRemaining()) {
                if (channel.read(bytes) < 0) {
                    throw new IOException("the client closed the connection");
                }
            }
            return bytes.flip();
        }

        /** Whether the client closes without saying anything more. */
        boolean ends() {
            try {
                return channel.read(ByteBuffer.allocate(1)) < 0;
            } catch (IOException reset) {
                // It has closed without reading everything.
                return true;
            }
        }

        void send(byte[]... frames) throws IOException {
            for (byte[] frame : frames) {
                ByteBuffer bytes = ByteBuffer.wrap(frame);
                while (bytes.hasRemaining()) {
                    channel.write(bytes);
                }
            }
        }

        /** Says that nothing more comes, as a daemon that has closed the connection. */
        void endOutput() throws IOException {
            channel.shutdownOutput();
        }

        @Override
        public void close() throws IOException {
            channel.close();
        }
    }

    // Frames.

    private static ByteBuffer frame(long id, int reply, int fields) {
        ByteBuffer frame = ByteBuffer.allocate(16 + fields).putInt(12 + fields);
        return frame.order(ByteOrder.LITTLE_ENDIAN).putLong(id).putInt(reply);
    }

    static byte[] hello(long id, int version, int maxCount, int maxInFlight) {
        return frame(id, 1, 10).putShort((short) version).putInt(maxCount).putInt(maxInFlight).array();
    }

    static byte[] ids(long id, long first, int count) {
        return ids(id, new Run(first, count));
    }

    static byte[] ids(long id, Run... runs) {
        ByteBuffer frame = frame(id, 2, 8 + 12 * runs.length);
        frame.putLong(runs[0].first()).putInt((int) runs[0].count()).putLong(runs.length - 1);
        for (int i = 1; i < runs.length; i++) {
            frame.putLong(runs[i].first()).putInt((int) runs[i].count());
        }
        return frame.array();
    }

    static byte[] time(long id, long unixMs) {
        return frame(id, 3, 8).putLong(unixMs).array();
    }

    static byte[] goodbye() {
        return frame(0, 6, 0).array();
    }

    static byte[] error(long id, int code, int retryAfterMs, long detail, String message) {
        byte[] text = message.getBytes(StandardCharsets.UTF_8);
        return frame(id, 0, 22 + text.length).putShort((short) code).putInt(retryAfterMs).putLong(detail)
                .putLong(text.length).put(text).array();
    }

    static byte[] error(long id, int code) {
        return error(id, code, 0, 0, "no");
    }

    /** A reply with a number that does not exist. */
    static byte[] unknownReply(long id) {
        return frame(id, 99, 0).array();
    }
}
