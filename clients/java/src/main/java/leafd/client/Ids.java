package leafd.client;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.PrimitiveIterator;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import leafd.client.wire.Run;

/**
 * The IDs of one call, in the order of issue: exactly as many as requested, each once, all between 0 and
 * 2^63 - 1. Immutable, and as small as its runs.
 */
public final class Ids implements Iterable<Long> {
    private final List<Run> runs;
    private final long count;

    private Ids(List<Run> runs, long count) {
        this.runs = runs;
        this.count = count;
    }

    /** Checks the runs of an answer to a request for {@code asked} IDs. */
    static Ids check(List<Run> runs, long asked) {
        long total = 0;
        boolean rising = true;
        long end = -1;
        for (Run run : runs) {
            if (run.count() == 0) {
                throw new LeafdException.ProtocolViolation(
                        "it sent an empty run of IDs at " + Long.toUnsignedString(run.first()));
            }
            if (run.first() < 0 || run.last() < 0) {
                throw new LeafdException.ProtocolViolation(
                        "it sent " + run.count() + " IDs from " + Long.toUnsignedString(run.first())
                                + ", which pass the highest ID 2^63 - 1");
            }
            rising &= run.first() > end;
            end = run.last();
            total += run.count();
        }
        if (total != asked) {
            throw new LeafdException.ProtocolViolation("it sent " + total + " IDs instead of " + asked);
        }
        if (!rising) {
            refuseTwice(runs);
        }
        return new Ids(List.copyOf(runs), total);
    }

    /** Joins what a pool has gathered from chunks that were checked before. */
    static Ids ofChecked(List<Run> runs, long count) {
        return new Ids(List.copyOf(runs), count);
    }

    private static void refuseTwice(List<Run> runs) {
        List<Run> sorted = new ArrayList<>(runs);
        sorted.sort(Comparator.comparingLong(Run::first));
        for (int i = 1; i < sorted.size(); i++) {
            if (sorted.get(i - 1).last() >= sorted.get(i).first()) {
                throw new LeafdException.ProtocolViolation(
                        "it sent ID " + sorted.get(i).first() + " twice in one answer");
            }
        }
    }

    /**
     * Returns the IDs as runs in the order of issue.
     *
     * @return one run or more, unmodifiable
     */
    public List<Run> runs() {
        return runs;
    }

    /**
     * Returns how many IDs there are.
     *
     * @return the count that was requested
     */
    public long count() {
        return count;
    }

    /**
     * Returns the first ID in the order of issue.
     *
     * @return the first ID
     */
    public long first() {
        return runs.get(0).first();
    }

    /**
     * Streams the IDs in the order of issue.
     *
     * @return a sequential stream
     */
    public LongStream stream() {
        return runs.stream().flatMapToLong(run -> LongStream.rangeClosed(run.first(), run.last()));
    }

    /**
     * Copies the IDs.
     *
     * @return the IDs in the order of issue
     * @throws OutOfMemoryError if there are too many for an array
     */
    public long[] toArray() {
        return stream().toArray();
    }

    @Override
    public PrimitiveIterator.OfLong iterator() {
        return new OneByOne(runs.iterator());
    }

    @Override
    public String toString() {
        return runs.stream()
                .map(run -> run.count() == 1 ? "" + run.first() : run.first() + ".." + run.last())
                .collect(Collectors.joining(", ", "[", "]"));
    }

    private static final class OneByOne implements PrimitiveIterator.OfLong {
        private final Iterator<Run> rest;
        private long next;
        private long left;

        OneByOne(Iterator<Run> runs) {
            rest = runs;
        }

        @Override
        public boolean hasNext() {
            return left > 0 || rest.hasNext();
        }

        @Override
        public long nextLong() {
            if (left == 0) {
                Run run = rest.next();
                next = run.first();
                left = run.count();
            }
            left--;
            return next++;
        }
    }
}
