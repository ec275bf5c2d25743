<?php

declare(strict_types=1);

namespace Leafd\Internal;

/**
 * When to connect again. The first attempt after a working connection is immediate. After attempts without
 * an answer the pauses double, with jitter, so that the clients of a restarted daemon do not all arrive at
 * once. Times are in nanoseconds.
 *
 * @internal
 */
final class Backoff
{
    private int $attempts = 0;

    /** Whether the last connection answered a call. A completed handshake is not enough: otherwise a daemon
     * that says hello and then fails would be called in a tight loop. */
    private bool $answered = false;

    private int $notBefore = 0;

    public function __construct(private readonly int $minMs, private readonly int $maxMs)
    {
    }

    /** Notes that a call was answered on the present connection. */
    public function answered(): void
    {
        $this->answered = true;
    }

    /**
     * Notes that an attempt failed or that the connection ended.
     *
     * @param float $jitter       a random number from 0 to 1
     * @param int   $retryAfterMs the pause that the daemon asks for
     */
    public function lost(int $now, float $jitter, int $retryAfterMs = 0): void
    {
        $pauseMs = 0.0;
        if ($this->answered) {
            $this->answered = false;
            $this->attempts = 0;
        } else {
            $doubled = $this->minMs * 2 ** min($this->attempts++, 20);
            $pauseMs = min($doubled, $this->maxMs) * (1 - $jitter / 2);
        }
        $this->notBefore = $now + (int) (max($pauseMs, $retryAfterMs) * 1e6);
    }

    /** The time to wait from `$now` before the next attempt. */
    public function pause(int $now): int
    {
        return max($this->notBefore - $now, 0);
    }
}
