<?php

declare(strict_types=1);

namespace Leafd\Exception;

/** The peer broke the protocol. Nothing in the offending message was used. */
final class ProtocolException extends \RuntimeException implements LeafdException
{
    public function __construct(string $what)
    {
        parent::__construct("the peer is not a leafd of a known version: $what");
    }

    public function isTemporary(): bool
    {
        return false;
    }
}
