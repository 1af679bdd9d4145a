// Components of a request's latency, by kind, and the stack of a wait: used by the breakdown and by the critical path.

export interface RequestPart {
    kind: string;
    ns: number;
    detail: string;
    stack: string[]; // leaf first
}

// Must match src/model/request.h; in the order of the segments of a bar.
export const PART_KINDS: [string, string, string][] = [
    ['cpu', 'on CPU', 'on a CPU, working for this request'],
    ['run_queue', 'run queue', 'ready to run, waiting for a CPU'],
    ['disk', 'disk', 'waiting for a file system or block device'],
    ['lock', 'lock', 'waiting for a lock or another thread'],
    ['sleep', 'sleep', 'asleep because the program asked to sleep'],
    ['network', 'network', 'waiting for the client or for network buffers'],
    ['downstream', 'downstream', 'waiting for another service that this request called'],
    ['unread', 'unread', 'its bytes had arrived and the server had not read them'],
    ['loop_busy', 'loop busy', 'ready, while the event loop worked for others'],
    ['queue_behind', 'queued', 'in a queue, behind other work of the thread that took it'],
    ['other', 'other', 'waiting in a system call or fault of another kind'],
    ['steal', 'steal', 'the hypervisor ran something else on its CPU'],
    ['unattributed', 'unattributed', 'not known'],
];

const known = new Set(PART_KINDS.map(([kind]) => kind));
export const classOf = (kind: string): string => `part-${known.has(kind) ? kind : 'other'}`;
export const nameOf = (kind: string): string => PART_KINDS.find(([k]) => k === kind)?.[1] ?? kind;

export function Stack({ frames }: { frames: string[] }) {
    return (
        <ol class="frames" aria-label="Stack, innermost frame first">
            {frames.map((frame, i) => (
                <li key={i} class={frame.endsWith('_[k]') ? 'dim' : ''}>
                    {frame}
                </li>
            ))}
        </ol>
    );
}
