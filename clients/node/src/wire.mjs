import wire from './wire.js';

export const { MAX_RESPONSE_LENGTH, VERSION, decodeResponse, decodeResponseFrame, encodeRequest } = wire;
