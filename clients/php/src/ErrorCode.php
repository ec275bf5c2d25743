<?php

declare(strict_types=1);

namespace Leafd;

/** The errors of the daemon. A number keeps its meaning for ever; a newer daemon may send others. */
enum ErrorCode: int
{
    case BadMagic = 100;
    case VersionUnsupported = 101;
    case HelloExpected = 102;
    case Malformed = 103;
    case UnknownCall = 104;
    case FrameTooLarge = 105;

    case BadCount = 200;
    case BadTag = 201;
    case UnknownTag = 202;
    case TagExists = 203;
    case BadStep = 204;
    case BadDescription = 205;
    case Forbidden = 206;
    case NotConfigured = 207;
    case TooManyTags = 208;
    case UnknownWorker = 209;
    case WorkerInUse = 210;
    case WrongOwner = 211;
    case BadPublicId = 212;

    case TooManyConnections = 300;
    case TooManyInFlight = 301;
    case StoreUnavailable = 302;
    case StateUnavailable = 303;
    case ClockBackwards = 304;
    case WorkerUnavailable = 305;
    case TimeExhausted = 306;
    case BadRow = 307;
    case DeadlineExceeded = 308;
    case ShuttingDown = 309;
    case TooManyWaiting = 310;
    case RegistryUnavailable = 311;
    case QuotaExceeded = 312;
}
