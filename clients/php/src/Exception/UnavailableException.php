<?php

declare(strict_types=1);

namespace Leafd\Exception;

/** There was no connection before the deadline, or this user may not open the socket. */
final class UnavailableException extends \RuntimeException implements LeafdException
{
    private const EPERM = 1;
    private const EACCES = 13;

    /**
     * @param string $socket the path that was tried
     * @param int    $errno  the system's error number; 0 if the daemon closed the connection
     */
    public function __construct(public readonly string $socket, string $reason, public readonly int $errno = 0)
    {
        parent::__construct("leafd is not reachable at $socket: $reason", $errno);
    }

    /** Missing permission lasts until someone changes it. */
    public function isTemporary(): bool
    {
        return $this->errno !== self::EACCES && $this->errno !== self::EPERM;
    }
}
