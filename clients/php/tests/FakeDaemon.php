<?php

declare(strict_types=1);

namespace Leafd\Tests;

/**
 * A daemon that does what a script says, in a process of its own. The script gets this object, and what it
 * returns is the result.
 */
final class FakeDaemon
{
    /** The longest life of the process, in seconds: a script that hangs must not outlive the tests. */
    private const LIFE = 30;

    public readonly string $path;

    /** @var resource */
    private mixed $listener;

    /** @var resource */
    private mixed $told;

    private int $pid = 0;

    private readonly string $folder;

    /** @param int $backlog places for connections that nobody has accepted yet */
    public function __construct(?\Closure $script, int $backlog = 64)
    {
        $this->folder = sys_get_temp_dir() . '/leafd-' . bin2hex(random_bytes(6));
        mkdir($this->folder);
        chmod($this->folder, 0755);
        $this->path = "$this->folder/s";
        $context = stream_context_create(['socket' => ['backlog' => $backlog]]);
        $flags = STREAM_SERVER_BIND | STREAM_SERVER_LISTEN;
        $listener = stream_socket_server("unix://$this->path", $errno, $reason, $flags, $context);
        $this->listener = $listener !== false ? $listener : throw new \RuntimeException($reason);
        chmod($this->path, 0777);
        if ($script !== null) {
            $this->start($script);
        }
    }

    public function __destruct()
    {
        if ($this->pid > 0) {
            posix_kill($this->pid, SIGKILL);
            pcntl_waitpid($this->pid, $status);
        }
        if (is_dir($this->folder)) {
            @unlink($this->path);
            @rmdir($this->folder);
        }
    }

    /** What the script returned. Throws if it failed. */
    public function result(): mixed
    {
        stream_set_timeout($this->told, self::LIFE);
        $told = unserialize((string) stream_get_contents($this->told));
        if (!\is_array($told)) {
            throw new \RuntimeException('the script of the fake daemon was killed');
        }

        return isset($told['failed']) ? throw new \RuntimeException($told['failed']) : $told['result'];
    }

    /** In the script: the next connection, after its handshake. */
    public function accept(): Peer
    {
        $peer = $this->acceptOnly();
        $peer->hello();

        return $peer;
    }

    /** In the script: the next connection as it is. */
    public function acceptOnly(): Peer
    {
        $stream = stream_socket_accept($this->listener, self::LIFE);

        return $stream !== false ? new Peer($stream) : throw new \RuntimeException('nobody connected');
    }

    /** In the script: how many connections wait to be accepted. */
    public function waiting(float $seconds = 0.05): int
    {
        for ($count = 0; @stream_socket_accept($this->listener, $seconds) !== false; ++$count);

        return $count;
    }

    private function start(\Closure $script): void
    {
        [$this->told, $tell] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $this->pid = pcntl_fork();
        if ($this->pid === 0) {
            pcntl_async_signals(false);
            pcntl_alarm(self::LIFE);
            try {
                $told = ['result' => $script($this)];
            } catch (\Throwable $e) {
                $told = ['failed' => (string) $e];
            }
            fwrite($tell, serialize($told));
            // No destructor and no output of the tests in this process.
            posix_kill((int) getmypid(), SIGKILL);
        }
        fclose($tell);
        fclose($this->listener);
    }
}
