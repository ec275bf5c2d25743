<?php

declare(strict_types=1);

// What a worker of php-fpm does in a request: draws IDs of several tags over the persistent socket, notes
// each before it does anything else, and is cut off half way if the query says so.

namespace Leafd\Internal {
    /** Ends the request in the middle of the client's own calls, which look for functions here first. */
    final class Cut
    {
        public static string $how = '';
        public static int $in = \PHP_INT_MAX;

        public static function now(string ...$how): bool
        {
            return \in_array(self::$how, $how, true) && --self::$in <= 0;
        }
    }

    function fwrite(mixed $stream, string $bytes): int|false
    {
        if (Cut::now('half-written')) {
            \fwrite($stream, substr($bytes, 0, random_int(1, \strlen($bytes) - 1)));
            exit;
        }

        return \fwrite($stream, $bytes);
    }

    function fread(mixed $stream, int $length): string|false
    {
        if (Cut::now('half-read')) {
            \fread($stream, random_int(1, 40));
            exit;
        }

        return \fread($stream, $length);
    }

    function stream_select(?array &$read, ?array &$write, ?array &$except, ?int $s, ?int $us = null): int|false
    {
        if (Cut::now('exit')) {
            exit;
        }
        if (Cut::now('fatal')) {
            str_repeat('x', 1 << 40);
        }
        if (Cut::now('throw')) {
            throw new \DomainException('cut off');
        }
        if (Cut::now('hang')) {
            while (true) {
                sleep(1);
            }
        }
        if (Cut::now('kill')) {
            posix_kill((int) getmypid(), 9);
        }

        return \stream_select($read, $write, $except, $s, $us);
    }
}

namespace {
    use Leafd\Client;
    use Leafd\Exception\LeafdException;
    use Leafd\Internal\Cut;
    use Leafd\Options;
    use Leafd\Run;

    require __DIR__ . '/vendor/autoload.php';

    $notes = $_SERVER['FPM_STORM_NOTES'] . '/' . getmypid();
    $note = static function (string $tag, Run ...$runs) use ($notes): void {
        foreach ($runs as $run) {
            file_put_contents($notes, "$tag $run->first $run->count\n", FILE_APPEND);
        }
    };
    $client = new Client(new Options(timeoutMs: 5000, persistent: true));
    $tags = explode(',', $_GET['tags']);
    $calls = (int) $_GET['calls'];
    $patience = (int) $_GET['patience'];
    if (random_int(0, 2) === 0) {
        // Runs after an exit too, while the persistent connection is still out.
        register_shutdown_function(static function () use ($client, $tags, $note): void {
            Cut::$how = '';
            $tag = $tags[array_rand($tags)];
            try {
                $note($tag, new Run($client->next($tag), 1));
            } catch (LeafdException $e) {
                $note($e::class . '-shutdown', new Run(0, 1));
                error_log((string) $e);
            }
        });
    }
    Cut::$how = $_GET['cut'];
    Cut::$in = random_int(1, 2 * $calls + 3);
    if ($_GET['cut'] === 'time') {
        set_time_limit(1);
        $calls = \PHP_INT_MAX;
    }
    for ($i = 0; $i < $calls; ++$i) {
        $tag = $tags[array_rand($tags)];
        $way = random_int(0, 3);
        try {
            match ($way) {
                0 => $note($tag, ...$client->nextMany($tag, random_int(1, 20))->runs()),
                1 => $note($tag, new Run($client->batch($tag, 10)->next(), 1)),
                2 => $note($tag, new Run($client->next($tag), 1)),
                3 => $note($tag, new Run($client->next($tag, $patience), 1)),
            };
        } catch (LeafdException $e) {
            $note($way === 3 ? 'impatient' : $e::class, new Run(0, 1));
            error_log((string) $e);
        }
        if ($_GET['cut'] === 'abort') {
            // Notices that the client has gone.
            echo str_repeat(' ', 8192);
            flush();
            usleep(3000);
        }
    }
    echo 'done';
}
