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
    /** The last warning of the last {@see self::call()}; empty if there was none. */
    public static string $warning = '';

    /** The application's error handler. @var callable|null */
    public mixed $previous = null;

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
        $quiet = new self();
        try {
            $quiet->previous = set_error_handler($quiet);

            return $call();
        } finally {
            restore_error_handler();
        }
    }

    public function __invoke(int $level, string $text, string $file = '', int $line = 0): mixed
    {
        if (!str_starts_with($file, \dirname(__DIR__) . '/')) {
            return $this->previous !== null ? ($this->previous)($level, $text, $file, $line) : false;
        }
        self::$warning = $text;

        return true;
    }
}
