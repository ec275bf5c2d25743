<?php

declare(strict_types=1);

namespace Leafd\Exception;

/** The client was closed. */
final class ClosedException extends \LogicException implements LeafdException
{
    public function __construct()
    {
        parent::__construct('this client was closed; make a new one');
    }

    public function isTemporary(): bool
    {
        return false;
    }
}
