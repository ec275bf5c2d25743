<?php

declare(strict_types=1);

namespace Leafd\Exception;

/** The client was connected, but the daemon did not answer before the deadline. */
final class DeadlineException extends \RuntimeException implements LeafdException
{
    public function __construct(string $call, public readonly int $timeoutMs)
    {
        parent::__construct("leafd did not answer $call within $timeoutMs ms");
    }

    public function isTemporary(): bool
    {
        return true;
    }
}
