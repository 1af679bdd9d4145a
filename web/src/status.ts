// The status of a request: of HTTP, or of a gRPC call.

const GRPC = ['OK', 'CANCELLED', 'UNKNOWN', 'INVALID_ARGUMENT', 'DEADLINE_EXCEEDED', 'NOT_FOUND', 'ALREADY_EXISTS', 'PERMISSION_DENIED', 'RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION', 'ABORTED', 'OUT_OF_RANGE', 'UNIMPLEMENTED', 'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS', 'UNAUTHENTICATED'];

export interface Status {
    text: string; // '': no reply
    state: 'bad' | 'poor' | 'dim' | '';
    failed: boolean;
}

/** `grpc`: undefined: no gRPC call; null: its status was not seen. */
export function statusOf(http: number, grpc: unknown): Status {
    if (typeof grpc === 'number') return { text: GRPC[grpc] ?? `${grpc}`, state: grpc ? 'bad' : '', failed: grpc !== 0 };
    if (grpc === null) return { text: 'unknown', state: 'dim', failed: false };
    return { text: http ? `${http}` : '', state: http >= 500 ? 'bad' : http >= 400 ? 'poor' : http ? '' : 'dim', failed: http === 0 || http >= 500 };
}
