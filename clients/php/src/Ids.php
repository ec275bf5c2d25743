<?php

declare(strict_types=1);

namespace Leafd;

use Leafd\Exception\ProtocolException;

/**
 * The IDs of one call, in the order of issue: exactly as many as requested, each once.
 *
 * @implements \IteratorAggregate<int, int>
 */
final class Ids implements \Countable, \IteratorAggregate
{
    /** @param non-empty-list<Run> $runs */
    private function __construct(private readonly array $runs, private readonly int $count)
    {
    }

    /**
     * The IDs of an answer that is one run and checked already.
     *
     * @internal
     */
    public static function run(int $first, int $count): self
    {
        return new self([new Run($first, $count)], $count);
    }

    /**
     * Checks the runs of an answer to a request for `$asked` IDs.
     *
     * @internal
     *
     * @param non-empty-list<Run> $runs
     *
     * @throws ProtocolException
     */
    public static function check(array $runs, int $asked): self
    {
        $total = 0;
        foreach ($runs as $run) {
            if ($run->count < 1) {
                throw new ProtocolException('it sent an empty run of IDs');
            }
            // A first ID above 2^63 − 1 arrives as a negative number.
            if ($run->first < 0 || $run->first > \PHP_INT_MAX - ($run->count - 1)) {
                throw new ProtocolException(
                    sprintf('it sent %d IDs from %u, which pass the highest ID 2^63 - 1', $run->count, $run->first)
                );
            }
            $total += $run->count;
        }
        if ($total !== $asked) {
            throw new ProtocolException("it sent $total IDs instead of $asked");
        }
        if (\count($runs) > 1) {
            $sorted = $runs;
            usort($sorted, static fn (Run $a, Run $b): int => $a->first <=> $b->first);
            $end = -1;
            foreach ($sorted as $run) {
                if ($run->first <= $end) {
                    throw new ProtocolException("it sent ID $run->first twice in one answer");
                }
                $end = $run->last();
            }
        }

        return new self($runs, $asked);
    }

    /**
     * The IDs as runs without gaps, in the order of issue.
     *
     * @return non-empty-list<Run>
     */
    public function runs(): array
    {
        return $this->runs;
    }

    /** The first ID in the order of issue. */
    public function first(): int
    {
        return $this->runs[0]->first;
    }

    /** The number of IDs, which is the number requested. */
    public function count(): int
    {
        return $this->count;
    }

    /** @return \Generator<int, int> */
    public function getIterator(): \Generator
    {
        $place = 0;
        foreach ($this->runs as $run) {
            // Counting up to the last ID could pass the highest integer.
            for ($i = 0; $i < $run->count; ++$i) {
                yield $place++ => $run->first + $i;
            }
        }
    }

    /** @return list<int> */
    public function toArray(): array
    {
        return iterator_to_array($this, false);
    }
}
