<?php

declare(strict_types=1);

namespace Leafd\Internal;

/**
 * Keeps PHP's warnings about a stream away from the application's error handler, which might log them or
 * turn them into exceptions. Return values say all that the client has to know.
 *
 * A signal handler may run within a call. Its errors still reach the application's error handler.
 *
 * @internal
 */
final class Quiet
{
    /** The last warning of the last call; empty if there was none. */
    public static string $warning = '';

    /**
     * @template T
     *
     * @param callable(): T $call
     *
     * @return T
     */
    public static function call(callable $call): mixed
    {
        self::$warning = '';
        $previous = null;
        $handler = static function (int $level, string $text, string $file = '', int $line = 0) use (&$previous): mixed {
            if (!str_starts_with($file, \dirname(__DIR__) . '/')) {
                return $previous !== null ? $previous($level, $text, $file, $line) : false;
            }
            self::$warning = $text;

            return true;
        };
        $previous = set_error_handler($handler);
        try {
            return $call();
        } finally {
            restore_error_handler();
        }
    }
}
