<?php

declare(strict_types=1);

namespace Leafd\Tests;

/** Does something in the middle of the client's own calls, where a signal or the end of a request may come. */
final class Interrupt
{
    /** Runs before each wait of a connection. */
    public static ?\Closure $beforeSelect = null;

    /** Runs after each wait of a connection. */
    public static ?\Closure $afterSelect = null;

    /** Runs after each write to a connection. */
    public static ?\Closure $afterWrite = null;

    /** Runs after each read from a connection. */
    public static ?\Closure $afterRead = null;

    /** Runs after each attempt to connect that is not persistent. */
    public static ?\Closure $afterConnect = null;
}
