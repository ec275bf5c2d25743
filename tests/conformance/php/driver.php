<?php

declare(strict_types=1);

// Drives the PHP client for the conformance suite: JSON lines in, JSON lines out. The lines are described in
// tests/conformance/README.md. `driver persistent` does the same with persistent connections.

require __DIR__ . '/vendor/autoload.php';
require __DIR__ . '/Storm.php';

use Leafd\Client;
use Leafd\Exception\ClosedException;
use Leafd\Exception\DeadlineException;
use Leafd\Exception\InvalidArgumentException;
use Leafd\Exception\LeafdException;
use Leafd\Exception\ProtocolException;
use Leafd\Exception\RefusedException;
use Leafd\Exception\UnavailableException;
use Leafd\Ids;
use Leafd\Internal\HelloReply;
use Leafd\Internal\IdsReply;
use Leafd\Internal\Request;
use Leafd\Internal\Response;
use Leafd\Internal\TimeReply;
use Leafd\Layout;
use Leafd\Options;
use Leafd\Run;
use Leafd\SocketPath;
use Leafd\Status\DaemonStatus;

/** A field of 64 bits, unsigned, as text. */
function u64(int $bits): string
{
    return sprintf('%u', $bits);
}

/** The bits of a decimal number of 64 bits, unsigned. */
function bits(string $decimal): int
{
    [$high, $low] = [0, 0];
    foreach (str_split($decimal) as $digit) {
        $low = $low * 10 + (int) $digit;
        $high = $high * 10 + ($low >> 32);
        $low &= 0xFFFF_FFFF;
    }

    return $high << 32 | $low;
}

/** Ends a line with an error that is no exception of the client. */
final class DriverError extends \RuntimeException
{
    public function __construct(public readonly string $kind, string $message)
    {
        parent::__construct($message);
    }
}

final class Driver
{
    /** @var array<string, Client|LeafdException> the exception of a client whose options are invalid */
    private array $clients = [];

    public function __construct(private readonly string $mode)
    {
    }

    public function run(): void
    {
        while (($line = fgets(STDIN)) !== false) {
            $request = json_decode($line, true);
            // A text that is no Unicode, such as half a surrogate pair, is refused by json_decode.
            $answer = ['id' => $request['id'] ?? (int) preg_replace('/.*"id"\s*:\s*(\d+).*/s', '$1', $line)];
            try {
                $answer['ok'] = \is_array($request)
                    ? $this->handle($request)
                    : throw new DriverError('invalid', json_last_error_msg());
            } catch (\Throwable $e) {
                $answer['error'] = self::error($e);
            }
            fwrite(STDOUT, json_encode($answer, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES) . "\n");
        }
        foreach ($this->clients as $client) {
            if ($client instanceof Client) {
                $client->close();
            }
        }
    }

    public static function error(\Throwable $e): array
    {
        $kind = match (true) {
            $e instanceof RefusedException => 'refused',
            $e instanceof UnavailableException => 'unavailable',
            $e instanceof DeadlineException => 'deadline',
            $e instanceof ProtocolException => 'protocol',
            $e instanceof InvalidArgumentException => 'invalid',
            $e instanceof ClosedException => 'closed',
            $e instanceof LeafdException => 'unsupported',
            $e instanceof DriverError => $e->kind,
            default => 'driver',
        };
        $error = ['kind' => $kind, 'message' => $kind === 'driver' ? (string) $e : $e->getMessage()];
        $error['temporary'] = $e instanceof LeafdException && $e->isTemporary();
        if ($e instanceof RefusedException) {
            $error += [
                'number' => $e->number,
                'name' => $e->name,
                'retry_after_ms' => $e->retryAfterMs,
                'detail' => u64($e->detail),
            ];
        }

        return $error;
    }

    private function handle(array $in): array|\stdClass
    {
        $timeout = $in['timeout_ms'] ?? null;

        return match ($in['op']) {
            'about' => [
                'language' => 'php',
                'mode' => $this->mode,
                'concurrent' => false,
                'forks' => \function_exists('pcntl_fork'),
                'pools' => false,
                'version' => PHP_VERSION,
            ],
            'socket_path' => ['path' => SocketPath::find()],
            'encode' => self::encode($in['message'], bits((string) $in['request_id']), $in['fields']),
            'decode_response' => self::decode((string) hex2bin(str_replace(' ', '', $in['hex']))),
            'decode_id' => self::decodeId($in['layout'], (string) $in['value']),
            'open' => $this->open($in),
            'close' => $this->close($in['client']),
            'next' => self::one($this->client($in)->next($in['tag'], $timeout)),
            'next_many' => self::runs($this->client($in)->nextMany($in['tag'], $in['count'], $timeout)),
            'snowflake' => self::one($this->client($in)->snowflake($timeout)),
            'snowflakes' => self::runs($this->client($in)->snowflakes($in['count'], $timeout)),
            'time' => ['unix_ms' => u64($this->client($in)->time($timeout))],
            'status' => self::status($this->client($in)->status($timeout)),
            'fork_next' => self::inChild(fn () => self::one($this->client($in)->next($in['tag']))),
            'storm' => (new Storm($in, $this->mode === 'persistent'))->run(),
            default => throw new DriverError('unsupported', "the PHP client has no {$in['op']}"),
        };
    }

    private function open(array $in): \stdClass
    {
        $options = array_filter([
            'socket' => $in['socket'] ?? null,
            'timeoutMs' => $in['timeout_ms'] ?? null,
            'backoffMinMs' => $in['backoff_min_ms'] ?? null,
            'backoffMaxMs' => $in['backoff_max_ms'] ?? null,
            'persistent' => $this->mode === 'persistent',
        ], static fn (mixed $value): bool => $value !== null);
        try {
            $this->clients[$in['client']] = new Client(new Options(...$options));
        } catch (LeafdException $e) {
            $this->clients[$in['client']] = $e;
            throw $e;
        }

        return new \stdClass();
    }

    private function close(string $name): \stdClass
    {
        $client = $this->clients[$name] ?? null;
        if ($client instanceof Client) {
            $client->close();
        }

        return new \stdClass();
    }

    private function client(array $in): Client
    {
        $client = $this->clients[$in['client']] ?? throw new DriverError('driver', "no client {$in['client']}");

        return $client instanceof Client ? $client : throw $client;
    }

    private static function one(int $id): array
    {
        return ['runs' => [[(string) $id, 1]]];
    }

    private static function runs(Ids $ids): array
    {
        return ['runs' => array_map(static fn (Run $run): array => [(string) $run->first, $run->count], $ids->runs())];
    }

    /** Does the work in a forked child, and hands on what it gives or throws. */
    private static function inChild(callable $work): array
    {
        [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $pid = pcntl_fork();
        if ($pid === 0) {
            try {
                $told = ['ok' => $work()];
            } catch (\Throwable $e) {
                $told = ['error' => self::error($e)];
            }
            fwrite($its, json_encode($told, JSON_THROW_ON_ERROR));
            // The ordinary end: destructors run, as in any child.
            exit(0);
        }
        fclose($its);
        $told = json_decode((string) stream_get_contents($mine), true) ?? [];
        pcntl_waitpid($pid, $status);
        if (isset($told['ok'])) {
            return $told['ok'];
        }
        throw new DriverError($told['error']['kind'] ?? 'driver', $told['error']['message'] ?? 'the child died');
    }

    private static function encode(string $message, int $id, array $fields): array
    {
        $request = match ($message) {
            'Hello' => Request::hello($fields['version']),
            'Segment' => Request::segment($fields['tag'], $fields['count']),
            'Snowflake' => Request::snowflake($fields['count']),
            'Time' => Request::time(),
            'Status' => Request::status(),
            default => null,
        };

        return $request === null
            ? ['unsupported' => true]
            : ['hex' => bin2hex($request->frame($id, $fields['timeout_ms'] ?? 0))];
    }

    private static function decode(string $frame): array
    {
        if (\strlen($frame) < 4 || unpack('N', $frame)[1] !== \strlen($frame) - 4) {
            throw new ProtocolException('this is not exactly one frame');
        }
        $body = substr($frame, 4);
        if (\strlen($body) >= 12 && \in_array(unpack('V', $body, 8)[1], [5, 7], true)) {
            return ['unsupported' => true];
        }
        $response = Response::decode($body);
        $reply = $response->reply;
        $fields = match (true) {
            $reply instanceof RefusedException => [
                'code' => $reply->number,
                'retry_after_ms' => $reply->retryAfterMs,
                'detail' => u64($reply->detail),
                'message' => $reply->text,
            ],
            $reply instanceof HelloReply => [
                'version' => $reply->version,
                'max_count' => $reply->maxCount,
                'max_in_flight' => $reply->maxInFlight,
            ],
            $reply instanceof IdsReply => self::idsFields($reply->runs),
            $reply instanceof TimeReply => ['unix_ms' => u64($reply->unixMs)],
            $reply instanceof DaemonStatus => self::status($reply),
            $reply === null => new \stdClass(),
        };

        return ['message' => $response->message, 'request_id' => u64($response->id), 'fields' => $fields];
    }

    private static function idsFields(array $runs): array
    {
        $runs = array_map(static fn (Run $run): array => ['first' => u64($run->first), 'count' => $run->count], $runs);

        return ['first' => $runs[0], 'more' => \array_slice($runs, 1)];
    }

    private static function status(DaemonStatus $status): array
    {
        $optional = static fn (?int $value): ?string => $value === null ? null : u64($value);
        $segments = $status->segments;
        $snowflake = $status->snowflake;
        $state = ['variant' => $snowflake->state->name];
        if ($snowflake->state->behindMs !== null) {
            $state['behind_ms'] = u64($snowflake->state->behindMs);
        }
        if ($snowflake->state->reason !== null) {
            $state['reason'] = $snowflake->state->reason;
        }

        return [
            'version' => $status->version,
            'pid' => $status->pid,
            'uptime_ms' => u64($status->uptimeMs),
            'connections' => $status->connections,
            'requests' => u64($status->requests),
            'state_dir' => $status->stateDir,
            'segments' => [
                'store' => $segments->store,
                'store_error' => $segments->storeError,
                'tags' => u64($segments->tags),
                'waiting' => u64($segments->waiting),
                'issued' => u64($segments->issued),
                'leases' => u64($segments->leases),
            ],
            'snowflake' => [
                'state' => $state,
                'worker' => $optional($snowflake->worker),
                'registry' => $snowflake->registry,
                'layout' => $snowflake->layout,
                'ceiling_unix_ms' => u64($snowflake->ceilingUnixMs),
                'last_unix_ms' => u64($snowflake->lastUnixMs),
                'clock_unix_ms' => u64($snowflake->clockUnixMs),
                'issued' => u64($snowflake->issued),
                'identity' => $snowflake->identity,
                'last_report_ms_ago' => $optional($snowflake->lastReportMsAgo),
                'registry_error' => $snowflake->registryError,
                'limit_unix_ms' => $optional($snowflake->limitUnixMs),
                'clock_offset_ms' => $snowflake->clockOffsetMs === null ? null : (string) $snowflake->clockOffsetMs,
                'peers' => $snowflake->peers,
            ],
        ];
    }

    private static function decodeId(string $layout, string $value): array
    {
        $decoded = Layout::parse($layout)->decode(bits($value));

        return [
            'unix_ms' => (string) $decoded->unixMs,
            'worker' => (string) $decoded->worker,
            'sequence' => (string) $decoded->sequence,
        ];
    }
}

(new Driver(($argv[1] ?? 'sync') === 'persistent' ? 'persistent' : 'sync'))->run();
