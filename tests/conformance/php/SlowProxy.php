<?php

declare(strict_types=1);

/**
 * Stands between clients and leafd, and delays some answers with IDs, so that they arrive behind later ones, or
 * while another request of PHP has the socket. Everything else passes at once, as it comes.
 */
final class SlowProxy
{
    private const IDS = 2;

    /** @var array<int, resource> by the number of the connection */
    private array $clients = [];
    /** @var array<int, resource> */
    private array $daemons = [];
    /** @var array<int, string> bytes of the daemon that are no whole frame yet */
    private array $unread = [];
    /** @var list<array{float, int, string}> time, connection, frame */
    private array $delayed = [];
    private int $connections = 0;
    private int $late = 0;
    private int $hellos = 0;

    public function __construct(private readonly string $path, private readonly string $socket)
    {
    }

    /** Serves until SIGTERM, then writes its numbers to `$report`. */
    public function serve(string $report): never
    {
        $context = stream_context_create(['socket' => ['backlog' => 128]]);
        $flags = STREAM_SERVER_BIND | STREAM_SERVER_LISTEN;
        $listener = stream_socket_server("unix://$this->path", $errno, $reason, $flags, $context);
        $stop = false;
        pcntl_async_signals(true);
        pcntl_signal(SIGTERM, static function () use (&$stop): void {
            $stop = true;
        });
        while (!$stop) {
            $wait = $this->deliver();
            $read = [$listener, ...$this->clients, ...$this->daemons];
            $none = [];
            if (!@stream_select($read, $none, $none, 0, $wait)) {
                continue;
            }
            foreach ($read as $stream) {
                $stream === $listener ? $this->accept($listener) : $this->pass($stream);
            }
        }
        file_put_contents($report, json_encode([
            'connections' => $this->connections,
            'hellos' => $this->hellos,
            'late' => $this->late,
        ]));
        exit(0);
    }

    private function accept(mixed $listener): void
    {
        $client = stream_socket_accept($listener, 0);
        $daemon = stream_socket_client("unix://$this->socket", $errno, $reason, 5);
        if ($client === false || $daemon === false) {
            return;
        }
        $number = $this->connections++;
        foreach ([$client, $daemon] as $stream) {
            stream_set_blocking($stream, false);
            stream_set_read_buffer($stream, 0);
        }
        $this->clients[$number] = $client;
        $this->daemons[$number] = $daemon;
        $this->unread[$number] = '';
    }

    private function pass(mixed $stream): void
    {
        $number = array_search($stream, $this->clients, true);
        $fromClient = $number !== false;
        $number = $fromClient ? $number : array_search($stream, $this->daemons, true);
        if ($number === false) {
            return;
        }
        $bytes = @fread($stream, 65536);
        if ($bytes === false || $bytes === '') {
            fclose($this->clients[$number]);
            fclose($this->daemons[$number]);
            unset($this->clients[$number], $this->daemons[$number], $this->unread[$number]);

            return;
        }
        if ($fromClient) {
            $this->hellos += (int) str_ends_with($bytes, "LEAF\1\0");
            @fwrite($this->daemons[$number], $bytes);

            return;
        }
        $this->unread[$number] .= $bytes;
        while (\strlen($this->unread[$number]) >= 4) {
            $length = 4 + unpack('N', $this->unread[$number])[1];
            if (\strlen($this->unread[$number]) < $length) {
                break;
            }
            $frame = substr($this->unread[$number], 0, $length);
            $this->unread[$number] = substr($this->unread[$number], $length);
            if (unpack('V', $frame, 12)[1] === self::IDS && mt_rand(0, 3) === 0) {
                ++$this->late;
                $this->delayed[] = [microtime(true) + mt_rand(0, 60_000) / 1e6, $number, $frame];
            } else {
                @fwrite($this->clients[$number], $frame);
            }
        }
    }

    /** Delivers what is due, and returns the time until the next is, in µs. */
    private function deliver(): int
    {
        $now = microtime(true);
        $wait = 1.0;
        foreach ($this->delayed as $key => [$at, $number, $frame]) {
            if ($at > $now) {
                $wait = min($wait, $at - $now);
                continue;
            }
            unset($this->delayed[$key]);
            if (isset($this->clients[$number])) {
                @fwrite($this->clients[$number], $frame);
            }
        }

        return (int) ($wait * 1e6) + 1;
    }
}
