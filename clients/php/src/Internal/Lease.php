<?php

declare(strict_types=1);

namespace Leafd\Internal;

use Leafd\Run;

/**
 * One run of IDs that are handed out one by one.
 *
 * @internal
 */
final class Lease
{
    private int $taken = 0;

    public function __construct(private readonly Run $run)
    {
    }

    /** The next ID; `null` if all are taken. */
    public function take(): ?int
    {
        // One instruction, and everything else here never changes: a signal handler that interrupts this
        // method and takes an ID too gets another one.
        $place = $this->taken++;

        return $place < $this->run->count ? $this->run->first + $place : null;
    }

    public function left(): int
    {
        return max($this->run->count - $this->taken, 0);
    }

    private function __clone()
    {
    }
}
