import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;
import leafd.client.LeafdClient;
import leafd.client.LeafdPool;

/** One request at a time: a bare echo, the client, a pool. Prints a line of JSON; see tests/measure-clients. */
class Speed {
    interface Call {
        void make() throws Exception;
    }

    static int setting(String name) {
        return Integer.parseInt(System.getenv(name));
    }

    static double rate(Call call, int calls) throws Exception {
        long began = System.nanoTime();
        for (int i = 0; i < calls; i++) {
            call.make();
        }
        return calls * 1e9 / (System.nanoTime() - began);
    }

    public static void main(String[] args) throws Exception {
        int calls = setting("CALLS");
        int pooled = setting("POOLED");
        ByteBuffer request = ByteBuffer.allocateDirect(setting("SIZE"));
        ByteBuffer answer = ByteBuffer.allocateDirect(setting("ANSWER"));
        try (SocketChannel bare = SocketChannel.open(UnixDomainSocketAddress.of(System.getenv("ECHO")));
                LeafdClient client = LeafdClient.create();
                LeafdPool pool = LeafdPool.tag("pooled").build()) {
            Call echo = () -> {
                request.clear();
                bare.write(request);
                answer.clear();
                while (answer.hasRemaining()) {
                    bare.read(answer);
                }
            };
            Call next = () -> client.next("speed");
            Call fromPool = () -> pool.next();
            rate(echo, calls);
            rate(next, calls);
            rate(fromPool, pooled);
            List<Double> echoes = new ArrayList<>();
            List<Double> clients = new ArrayList<>();
            List<Double> pools = new ArrayList<>();
            for (int round = 0; round < setting("ROUNDS"); round++) {
                echoes.add(rate(echo, calls));
                clients.add(rate(next, calls));
            }
            for (int round = 0; round < 3; round++) {
                pools.add(rate(fromPool, pooled));
            }
            System.out.println("{\"echo\": " + echoes + ", \"client\": " + clients + ", \"pool\": " + pools + "}");
        }
    }
}
