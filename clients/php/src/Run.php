<?php

declare(strict_types=1);

namespace Leafd;

/** IDs in a row: `first`, `first + 1`, … */
final class Run
{
    /** @param int $count 1 or more, and `first + count − 1` is at most 2^63 − 1 */
    public function __construct(public readonly int $first, public readonly int $count)
    {
    }

    /** The highest ID of the run. */
    public function last(): int
    {
        return $this->first + ($this->count - 1);
    }
}
