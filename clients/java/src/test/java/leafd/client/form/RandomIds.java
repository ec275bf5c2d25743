package leafd.client.form;

import java.util.Random;
import java.util.stream.LongStream;

/** IDs to try a form with. A test that fails names the ID, so no seed is needed to repeat it. */
final class RandomIds {
    static final long MAX = Long.MAX_VALUE;

    private RandomIds() {}

    /** IDs of up to so many bits: the first ones, the last ones, those around powers of two, and any of all sizes. */
    static long[] of(int bits, int count) {
        Random random = new Random();
        long last = MAX >>> (63 - bits);
        LongStream edges = LongStream.of(0, 1, 2, last, last - 1);
        LongStream powers = LongStream.range(0, bits).flatMap(bit -> LongStream.of((1L << bit) - 1, 1L << bit));
        LongStream any = LongStream.range(0, count)
                .map(i -> (random.nextLong() & last) >>> (i % 2 == 0 ? 0 : random.nextInt(bits)));
        return LongStream.concat(LongStream.concat(edges, powers), any).filter(id -> id >= 0).toArray();
    }
}
