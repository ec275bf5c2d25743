<?php

declare(strict_types=1);

namespace Leafd\Exception;

/** An argument is invalid. Nothing was sent. */
final class InvalidArgumentException extends \InvalidArgumentException implements LeafdException
{
    public function isTemporary(): bool
    {
        return false;
    }
}
