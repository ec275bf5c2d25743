<?php

declare(strict_types=1);

namespace Leafd\Tests;

use Leafd\Client;
use Leafd\Exception\LeafdException;
use Leafd\Internal\Slot;
use Leafd\Options;
use PHPUnit\Framework\TestCase;

/** Helpers of the tests that need a daemon. */
abstract class ClientCase extends TestCase
{
    protected ?FakeDaemon $daemon = null;

    protected function setUp(): void
    {
        if (!\function_exists('pcntl_fork') || !\function_exists('posix_kill')) {
            self::markTestSkipped('needs the extensions pcntl and posix');
        }
        self::newRequest();
    }

    protected function tearDown(): void
    {
        $this->daemon = null;
        Interrupt::$beforeSelect = null;
        Interrupt::$afterConnect = null;
        Interrupt::$afterSelect = null;
        Interrupt::$afterWrite = null;
        Interrupt::$afterRead = null;
    }

    protected function client(\Closure $script, int $timeoutMs = 5000, bool $persistent = false): Client
    {
        $this->daemon = new FakeDaemon($script);

        return $this->clientOf($this->daemon, $timeoutMs, $persistent);
    }

    protected function clientOf(FakeDaemon $daemon, int $timeoutMs = 5000, bool $persistent = false): Client
    {
        return new Client(new Options($daemon->path, $timeoutMs, persistent: $persistent));
    }

    /** What PHP does between two requests of one worker: static properties are empty, sockets stay. */
    protected static function newRequest(): void
    {
        (new \ReflectionProperty(Slot::class, 'persistent'))->setValue(null, []);
    }

    /** @return LeafdException the exception that the call throws */
    protected static function failure(\Closure $call): LeafdException
    {
        try {
            $call();
        } catch (LeafdException $e) {
            return $e;
        }
        self::fail('the call succeeded');
    }

    /** Does the work in a forked child, and returns what it returns. */
    protected static function inChild(\Closure $work): mixed
    {
        [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $pid = pcntl_fork();
        if ($pid === 0) {
            try {
                $told = $work();
            } catch (\Throwable $e) {
                $told = (string) $e;
            }
            fwrite($its, serialize($told));
            // No destructor of the tests in this process.
            posix_kill((int) getmypid(), SIGKILL);
        }
        fclose($its);
        $told = unserialize((string) stream_get_contents($mine));
        pcntl_waitpid($pid, $status);

        return $told;
    }
}
