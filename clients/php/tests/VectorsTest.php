<?php

declare(strict_types=1);

namespace Leafd\Tests;

use Leafd\Exception\ProtocolException;
use Leafd\Exception\RefusedException;
use Leafd\Internal\IdsReply;
use Leafd\Internal\Request;
use Leafd\Internal\Response;
use PHPUnit\Framework\TestCase;

/** The client against `protocol/vectors.json`, which was written by hand from the page of the protocol. */
final class VectorsTest extends TestCase
{
    private const WITHOUT = [
        'TagList', 'TagShow', 'TagCreate', 'TagSetStep', 'TagDelete', 'TagsUsed', 'WorkerList', 'WorkerRelease',
        'WorkerBorrow', 'WorkerReturn', 'PoolList', 'PoolRelease', 'TagForecasts', 'Tags', 'Workers', 'Loan',
        'Forecasts', 'PublicEncode', 'PublicDecode', 'PublicIds', 'PublicNumbers',
    ];

    /** @return iterable<string, array{array<string, mixed>, string}> */
    public function vectors(): iterable
    {
        $file = (string) file_get_contents(__DIR__ . '/../../../protocol/vectors.json');
        foreach (json_decode($file, true, 512, JSON_THROW_ON_ERROR)['vectors'] as $vector) {
            if (!\in_array($vector['message'], self::WITHOUT, true)) {
                yield $vector['name'] => [$vector, (string) hex2bin(str_replace(' ', '', implode('', $vector['hex'])))];
            }
        }
    }

    /**
     * @dataProvider vectors
     *
     * @param array<string, mixed> $vector
     */
    public function testEveryMessageHasExactlyTheseBytes(array $vector, string $frame): void
    {
        if ($vector['direction'] === 'request') {
            $fields = $vector['fields'];
            $request = match ($vector['message']) {
                'Hello' => Request::hello($fields['version']),
                'Segment' => Request::segment($fields['tag'], $fields['count']),
                'Snowflake' => Request::snowflake($fields['count']),
                'Time' => Request::time(),
                'Status' => Request::status(),
            };
            $id = unpack('P', $frame, 4)[1];
            self::assertSame($vector['id'], sprintf('%u', $id));
            self::assertSame(bin2hex($frame), bin2hex($request->frame($id, $fields['timeout_ms'] ?? 0)));

            return;
        }
        self::assertSame(\strlen($frame) - 4, unpack('N', $frame)[1]);
        $response = Response::decode(substr($frame, 4));
        self::assertSame($vector['message'], $response->message);
        self::assertSame($vector['id'], sprintf('%u', $response->id));
        self::assertSame(self::text($vector['fields']), self::text(self::fields($response->reply)));
    }

    /**
     * @dataProvider vectors
     *
     * @param array<string, mixed> $vector
     */
    public function testAResponseThatIsCutShortOrTooLongDoesNotDecode(array $vector, string $frame): void
    {
        $body = substr($frame, 4);
        $wrong = ["$body\0"];
        if ($vector['direction'] === 'response') {
            for ($length = 0; $length < \strlen($body); ++$length) {
                $wrong[] = substr($body, 0, $length);
            }
            foreach ($wrong as $bytes) {
                try {
                    Response::decode($bytes);
                    self::fail(bin2hex($bytes) . ' decodes');
                } catch (ProtocolException) {
                }
            }
        }
        self::assertNotEmpty($wrong);
    }

    /** @return array<string, mixed> a reply under the names of the protocol */
    private static function fields(?object $reply): array
    {
        if ($reply instanceof RefusedException) {
            return [
                'code' => $reply->number,
                'retry_after_ms' => $reply->retryAfterMs,
                'detail' => $reply->detail,
                'message' => $reply->text,
            ];
        }
        if ($reply instanceof IdsReply) {
            $runs = array_map(get_object_vars(...), $reply->runs);

            return ['first' => $runs[0], 'more' => \array_slice($runs, 1)];
        }
        $fields = [];
        foreach ($reply === null ? [] : get_object_vars($reply) as $name => $value) {
            $name = strtolower((string) preg_replace('/[A-Z]/', '_$0', $name));
            $fields[$name] = match (true) {
                $name === 'state' => ['variant' => $value->name]
                    + array_filter(['behind_ms' => $value->behindMs, 'reason' => $value->reason], fn ($it) => $it !== null),
                \is_object($value) => self::fields($value),
                default => $value,
            };
        }

        return $fields;
    }

    /** Numbers as text, as the file has those of 64 bits. */
    private static function text(mixed $value): mixed
    {
        return match (true) {
            \is_array($value) => array_map(self::text(...), $value),
            \is_int($value) => (string) $value,
            default => $value,
        };
    }
}
