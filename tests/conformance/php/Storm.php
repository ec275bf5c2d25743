<?php

declare(strict_types=1);

use Leafd\Client;
use Leafd\Exception\LeafdException;
use Leafd\Options;
use Leafd\Run;

/**
 * Many processes that draw IDs at once, from a client that was made and used before they were forked. PHP
 * has no threads, so `threads` multiplies the processes. `use` may also be `batch`, which only PHP has.
 */
final class Storm
{
    private readonly Client $client;
    private readonly int $batch;

    public function __construct(private readonly array $in, bool $persistent)
    {
        if (!\in_array($in['use'] ?? 'client', ['client', 'batch'], true)) {
            throw new DriverError('unsupported', 'the PHP client has no pools');
        }
        $this->batch = $in['batch'];
        $this->client = new Client(new Options(
            $in['socket'],
            timeoutMs: $in['timeout_ms'] ?? 5000,
            persistent: $persistent,
        ));
    }

    public function run(): array
    {
        $processes = max(1, $this->in['workers']) * max(1, $this->in['threads'] ?? 1);
        $total = new Tally();
        // Made and used once before the fork.
        $this->draw(1, "{$this->in['out']}/php-first", $total);
        $ids = (int) $this->in['ids'] - 1;
        $again = $this->in['fork_again'] ?? false;
        $work = [];
        for ($i = 0; $i < $processes; ++$i) {
            $share = intdiv($ids * ($i + 1), $processes) - intdiv($ids * $i, $processes);
            $work[] = function (Tally $tally) use ($share, $again, $i): void {
                $file = "{$this->in['out']}/php-$i";
                if (!$again) {
                    $this->draw($share, $file, $tally);

                    return;
                }
                $half = intdiv($share, 2);
                $quarter = intdiv($share - $half, 2);
                $this->draw($half, $file, $tally);
                $child = self::fork(fn (Tally $its) => $this->draw($quarter, "$file-child", $its));
                $this->draw($share - $half - $quarter, "$file-parent", $tally);
                $tally->add(self::join($child));
            };
        }
        foreach (array_map(self::fork(...), $work) as $child) {
            $total->add(self::join($child));
        }

        return [
            'issued' => (string) $total->issued,
            'calls' => $total->calls,
            'failed' => $total->failed,
            'errors' => \array_slice($total->errors, 0, 10),
        ];
    }

    private function draw(int $ids, string $path, Tally $tally): void
    {
        $file = fopen($path, 'wb');
        [$first, $count] = [0, 0];
        $note = static function (Run $run) use (&$first, &$count, $file, $tally): void {
            $tally->issued += $run->count;
            if ($count > 0 && $run->first === $first + $count && $count + $run->count <= 0xFFFF_FFFF) {
                $count += $run->count;

                return;
            }
            if ($count > 0) {
                fwrite($file, pack('PV', $first, $count));
            }
            [$first, $count] = [$run->first, $run->count];
        };
        $tag = $this->in['tag'] ?? null;
        $lease = ($this->in['use'] ?? 'client') === 'batch';
        while ($ids > 0) {
            $size = $lease ? 1 : min($ids, $this->batch);
            $ids -= $size;
            ++$tally->calls;
            try {
                $runs = match (true) {
                    $lease => [new Run($this->client->batch($tag, $this->batch)->next(), 1)],
                    $tag === null => $this->client->snowflakes($size)->runs(),
                    default => $this->client->nextMany($tag, $size)->runs(),
                };
                array_map($note, $runs);
            } catch (LeafdException $e) {
                ++$tally->failed;
                if (\count($tally->errors) < 10) {
                    $tally->errors[] = $e->getMessage();
                }
            }
        }
        if ($count > 0) {
            fwrite($file, pack('PV', $first, $count));
        }
        fclose($file);
    }

    /** @return array{int, resource} */
    private static function fork(callable $work): array
    {
        [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $pid = pcntl_fork();
        if ($pid === -1) {
            throw new DriverError('driver', 'fork failed');
        }
        if ($pid === 0) {
            fclose($mine);
            $tally = new Tally();
            try {
                $work($tally);
            } catch (\Throwable $e) {
                ++$tally->failed;
                $tally->errors[] = (string) $e;
            }
            fwrite($its, serialize($tally));
            exit(0);
        }
        fclose($its);

        return [$pid, $mine];
    }

    /** @param array{int, resource} $child */
    private static function join(array $child): Tally
    {
        // PHP would stop reading after a minute (default_socket_timeout), and a storm may last longer.
        stream_set_timeout($child[1], 3600);
        $tally = unserialize((string) stream_get_contents($child[1]), ['allowed_classes' => [Tally::class]]);
        pcntl_waitpid($child[0], $status);
        if ($tally instanceof Tally) {
            return $tally;
        }
        $died = new Tally();
        $died->failed = 1;
        $died->errors = ["a process died with status $status"];

        return $died;
    }
}

/** What a process got. */
final class Tally
{
    public int $issued = 0;
    public int $calls = 0;
    public int $failed = 0;
    /** @var list<string> */
    public array $errors = [];

    public function add(self $other): void
    {
        $this->issued += $other->issued;
        $this->calls += $other->calls;
        $this->failed += $other->failed;
        $this->errors = [...$this->errors, ...$other->errors];
    }
}
