<?php

declare(strict_types=1);

namespace Leafd\Exception;

/** This build of PHP cannot do it. */
final class UnsupportedException extends \RuntimeException implements LeafdException
{
    public function isTemporary(): bool
    {
        return false;
    }
}
