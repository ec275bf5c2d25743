<?php

declare(strict_types=1);

// PHP looks for a function in the namespace of the caller first.

namespace Leafd\Internal;

use Leafd\Tests\Interrupt;

function stream_select(?array &$read, ?array &$write, ?array &$except, ?int $seconds, ?int $us = null): int|false
{
    if (Interrupt::$beforeSelect !== null) {
        (Interrupt::$beforeSelect)();
    }

    $ready = asTheClient(static function () use (&$read, &$write, &$except, $seconds, $us): int|false {
        return \stream_select($read, $write, $except, $seconds, $us);
    });
    if (Interrupt::$afterSelect !== null) {
        (Interrupt::$afterSelect)();
    }

    return $ready;
}

function fwrite(mixed $stream, string $bytes): int|false
{
    $written = asTheClient(static fn () => \fwrite($stream, $bytes));
    if (Interrupt::$afterWrite !== null) {
        (Interrupt::$afterWrite)();
    }

    return $written;
}

function fread(mixed $stream, int $length): string|false
{
    $bytes = asTheClient(static fn () => \fread($stream, $length));
    if (Interrupt::$afterRead !== null) {
        (Interrupt::$afterRead)();
    }

    return $bytes;
}

function stream_socket_client(string $address, ?int &$errno, ?string &$reason, ?float $timeout): mixed
{
    $stream = asTheClient(static function () use ($address, &$errno, &$reason, $timeout): mixed {
        return \stream_socket_client($address, $errno, $reason, $timeout);
    });
    if (Interrupt::$afterConnect !== null) {
        (Interrupt::$afterConnect)();
    }

    return $stream;
}

/** The client takes note of the warnings of its own code only. Here, these count as its own. */
function asTheClient(\Closure $call): mixed
{
    set_error_handler(static function (int $level, string $warning): bool {
        Quiet::$warning = $warning;

        return true;
    });
    try {
        return $call();
    } finally {
        restore_error_handler();
    }
}
