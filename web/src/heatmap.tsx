// Heatmap of the last two minutes by slots of 20 ms. A column is a second, from bottom to top; the colour is the CPU time used. Shows short
// spikes and periodic work. A region selected by mouse or keyboard is shown in the flame graph, optionally compared with a baseline region.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { EventMarks } from './events';
import * as format from './format';
import { between, heatColor, levelName, levelOf, levelsOf, secondOf, SLOTS, SLOT_MS, sumOf, unixOf, wholeSecond, worth, type Heatmap, type Region } from './heat';

export const HEAT_SECONDS = 120;
const ROW = 3;
const HEIGHT = SLOTS * ROW;
const MARKS = 6;

interface Props {
    heatmap: Heatmap;
    dark: boolean;
    region: Region | null;
    baseline: Region | null;
    setRegions: (of: { region: Region | null; baseline: Region | null }) => void;
}

const sayRegion = (h: Heatmap, r: Region): string => `${format.moment(unixOf(h, r.from))} to ${format.moment(unixOf(h, r.to))}`;

function sayCell(h: Heatmap, r: Region): string {
    const sum = sumOf(h, r);
    const second = h.seconds[secondOf(r.from) - h.first];
    const what = sum ? `${format.count(sum.samples, 'sample')}, ${format.duration(sum.weight)} of CPU time` : second === null ? 'detail no longer kept' : 'nothing known';
    return `${format.moment(unixOf(h, r.from))}, ${format.duration((r.to - r.from) * SLOT_MS * 1e6)}: ${what}`;
}

function Scale({ heatmap, levels, dark }: { heatmap: Heatmap; levels: number[]; dark: boolean }) {
    return (
        <ul class="legend heat-scale" aria-label="Samples in 20 ms" data-testid="heat-scale">
            <li>samples in 20 ms</li>
            {levels.slice(1).map((_, i) => (
                <li key={i}>
                    <i class="swatch" style={{ background: heatColor(i, levels, dark) }} />
                    {levelName(levels, i)}
                </li>
            ))}
            {heatmap.seconds.includes(null) && (
                <li title="Samples from this time are no longer kept by slot, to save memory">
                    <i class="swatch hatched" />
                    detail no longer kept
                </li>
            )}
            {heatmap.period > 0 && (
                <li title="The colour of a single slot may be random; repetition, or many similar slots, is significant">one is {format.duration(heatmap.period)} of CPU time</li>
            )}
        </ul>
    );
}

function hatch(context: CanvasRenderingContext2D, x: number, width: number, height: number, dark: boolean): void {
    context.save();
    context.beginPath();
    context.rect(x, 0, width, height);
    context.clip();
    context.strokeStyle = dark ? '#5c636b' : '#a9aaa6';
    context.beginPath();
    for (let at = x - height; at < x + width; at += 6) {
        context.moveTo(at, height);
        context.lineTo(at + height, 0);
    }
    context.stroke();
    context.restore();
}

// A region covers part of the first column, whole columns, and part of the last one.
function outline(context: CanvasRenderingContext2D, r: Region, first: number, width: number, color: string): void {
    context.fillStyle = color;
    for (let second = secondOf(r.from); second <= secondOf(r.to - 1); second++) {
        const low = Math.max(r.from - second * SLOTS, 0);
        const high = Math.min(r.to - second * SLOTS, SLOTS);
        const x = Math.round((second - first) * width);
        const right = Math.round((second - first + 1) * width);
        const top = HEIGHT - high * ROW;
        const bottom = HEIGHT - low * ROW;
        context.fillRect(x, top, right - x, 2);
        context.fillRect(x, bottom - 2, right - x, 2);
        const edge = (beside: number, at: number) => {
            // Draws the side where the neighbour column's part is shorter or missing.
            const from = Math.max(r.from - beside * SLOTS, 0);
            const to = Math.min(r.to - beside * SLOTS, SLOTS);
            if (from >= to) context.fillRect(at, top, 2, bottom - top);
            else {
                if (to < high) context.fillRect(at, top, 2, (high - to) * ROW);
                if (from > low) context.fillRect(at, bottom - (from - low) * ROW, 2, (from - low) * ROW);
            }
        };
        edge(second - 1, x);
        edge(second + 1, right - 2);
    }
}

export function HeatmapPanel({ heatmap: latest, dark, region, baseline, setRegions }: Props) {
    const canvas = useRef<HTMLCanvasElement>(null);
    const [width, setWidth] = useState(0);
    const [cursor, setCursor] = useState<number | null>(null); // slot
    const [anchor, setAnchor] = useState<number | null>(null);
    const [hovered, setHovered] = useState<number | null>(null);
    const [held, setHeld] = useState<Heatmap | null>(null); // frozen during a drag
    const [focused, setFocused] = useState(false);
    const heatmap = held ?? latest;
    const levels = useMemo(() => levelsOf(heatmap), [heatmap]);

    // The newest second is at the right edge, even when the left is empty.
    const end = heatmap.first + heatmap.seconds.length;
    const first = end - HEAT_SECONDS;
    const column = width / HEAT_SECONDS;
    const pending = anchor !== null && cursor !== null ? between(anchor, cursor) : null;

    useLayoutEffect(() => {
        const fit = () => setWidth(canvas.current!.parentElement!.clientWidth);
        const watcher = new ResizeObserver(fit);
        watcher.observe(canvas.current!.parentElement!);
        fit();
        return () => watcher.disconnect();
    }, []);

    useLayoutEffect(() => {
        const ratio = window.devicePixelRatio || 1;
        const c = canvas.current!;
        c.width = Math.max(1, Math.round(width * ratio));
        c.height = Math.round(HEIGHT * ratio);
        const context = c.getContext('2d')!;
        context.scale(ratio, ratio);
        const colors = levels.map((_, i) => heatColor(i, levels, dark));
        heatmap.seconds.forEach((second, i) => {
            const x = Math.round((heatmap.first + i - first) * column);
            const right = Math.round((heatmap.first + i - first + 1) * column);
            if (right <= 0) return;
            if (!second) {
                hatch(context, x, right - x, HEIGHT, dark);
                return;
            }
            second.weights.forEach((weight, row) => {
                if (((heatmap.first + i) * SLOTS + row) * SLOT_MS >= heatmap.now) return; // in the future
                context.fillStyle = colors[levelOf(levels, worth(heatmap, weight))]!;
                context.fillRect(x, HEIGHT - (row + 1) * ROW, right - x - (right - x > 4 ? 1 : 0), ROW);
            });
        });
        const ink = dark ? '#ffffff' : '#000000';
        if (baseline) outline(context, baseline, first, column, dark ? '#7fb0f5' : '#1f5fbf');
        if (region) outline(context, region, first, column, ink);
        if (pending) outline(context, pending, first, column, ink);
        else if (cursor !== null && focused) outline(context, between(cursor, cursor), first, column, ink);
    }, [heatmap, levels, dark, width, region, baseline, pending?.from, pending?.to, cursor, focused]);

    const slotAt = (e: MouseEvent): number => {
        const box = canvas.current!.getBoundingClientRect();
        const second = Math.max(heatmap.first, Math.min(end - 1, first + Math.floor((e.clientX - box.left) / column)));
        const row = Math.max(0, Math.min(SLOTS - 1, Math.floor((box.bottom - e.clientY) / ROW)));
        return second * SLOTS + row;
    };

    const pick = (r: Region) => {
        setAnchor(null);
        setHeld(null);
        setRegions({ region: r, baseline });
    };
    const asBaseline = () => region && setRegions({ region: null, baseline: region });

    // A drag that ends outside the window, or becomes a scroll, is cancelled.
    useEffect(() => {
        const drop = () => {
            setAnchor(null);
            setHeld(null);
        };
        window.addEventListener('blur', drop);
        return () => window.removeEventListener('blur', drop);
    }, []);

    const last = end * SLOTS - 1;
    const clamp = (slot: number) => Math.max(heatmap.first * SLOTS, Math.min(last, slot));
    const start = () => clamp(Math.floor(heatmap.now / 1000 - 2) * SLOTS);
    const steps: Record<string, (at: number) => number> = {
        ArrowLeft: (at) => at - SLOTS,
        ArrowRight: (at) => at + SLOTS,
        ArrowUp: (at) => at + 1,
        ArrowDown: (at) => at - 1,
        PageUp: (at) => at + 10 * SLOTS,
        PageDown: (at) => at - 10 * SLOTS,
        Home: () => heatmap.first * SLOTS,
        End: () => start(),
    };
    const onKey = (e: KeyboardEvent) => {
        if (e.ctrlKey || e.metaKey || e.altKey || heatmap.seconds.length === 0) return;
        const at = clamp(cursor ?? start());
        const step = steps[e.key];
        if (step) {
            setAnchor(e.shiftKey ? (anchor ?? at) : null);
            setCursor(clamp(step(at)));
        } else if (e.key === 'Enter' || e.key === ' ') pick(pending ?? (e.shiftKey ? between(at, at) : wholeSecond(at)));
        else if (e.key === 'b' && region) asBaseline();
        else if (e.key === 'Escape' && pending) setAnchor(null);
        else if (e.key === 'Escape') setRegions(region ? { region: null, baseline } : { region: null, baseline: null });
        else return;
        e.preventDefault();
        setHovered(null);
    };

    const shown = hovered !== null && anchor === null ? between(hovered, hovered) : (pending ?? (cursor !== null && focused ? between(cursor, cursor) : null));
    return (
        <section class="heat" aria-labelledby="heat-title">
            <header class="bar">
                <h2 id="heat-title">Second by second</h2>
                <Scale heatmap={heatmap} levels={levels} dark={dark} />
                <div class="tools">
                    {baseline && (
                        <button type="button" onClick={() => setRegions({ region, baseline: null })}>
                            Drop baseline
                        </button>
                    )}
                    {region && !baseline && (
                        <button type="button" onClick={asBaseline} title="Then select the region to compare with it">
                            Use as baseline <kbd>b</kbd>
                        </button>
                    )}
                    {region && (
                        <button type="button" onClick={() => setRegions({ region: null, baseline })}>
                            {baseline ? 'Drop region' : 'Back to live'} <kbd>Esc</kbd>
                        </button>
                    )}
                </div>
            </header>
            <div class="heat-map">
                <div class="heat-rows dim" aria-hidden="true">
                    <span>1 s</span>
                    <span>½</span>
                    <span>0</span>
                </div>
                <div
                    class="heat-cells"
                    style={{ height: `${HEIGHT}px` }}
                    tabIndex={0}
                    role="application"
                    aria-roledescription="heatmap"
                    aria-label="CPU time by slots of 20 ms. Left and right move by a second, up and down by a slot; with Shift a region grows. Enter selects it, or the second; Shift and Enter the slot. b makes it the baseline, Escape clears it."
                    aria-describedby="heat-at"
                    data-testid="heat"
                    onFocus={() => setFocused(true)}
                    onBlur={() => setFocused(false)}
                    onKeyDown={onKey}
                    onPointerDown={(e) => {
                        if (e.button !== 0 || heatmap.seconds.length === 0) return;
                        e.currentTarget.setPointerCapture(e.pointerId);
                        setHeld(heatmap);
                        setAnchor(slotAt(e));
                        setCursor(slotAt(e));
                    }}
                    onPointerMove={(e) => (anchor !== null && held ? setCursor(slotAt(e)) : heatmap.seconds.length > 0 && setHovered(slotAt(e)))}
                    onPointerUp={(e) => {
                        if (anchor === null || !held) return;
                        const to = slotAt(e);
                        pick(anchor === to && !e.shiftKey ? wholeSecond(to) : between(anchor, to));
                    }}
                    onPointerCancel={() => (setAnchor(null), setHeld(null))}
                    onPointerLeave={() => setHovered(null)}
                >
                    <canvas ref={canvas} aria-hidden="true" />
                    {(heatmap.first - first) * column > 150 && (
                        <span class="heat-none" style={{ width: `${(heatmap.first - first) * column}px` }}>
                            no earlier data
                        </span>
                    )}
                </div>
            </div>
            {heatmap.seconds.length > 0 && <EventMarks from={unixOf(heatmap, first * SLOTS)} seconds={HEAT_SECONDS} />}
            <div class="heat-times dim" aria-hidden="true">
                {heatmap.seconds.length > 0 && Array.from({ length: MARKS }, (_, i) => <span key={i}>{format.clock(unixOf(heatmap, (first + (i * HEAT_SECONDS) / MARKS) * SLOTS))}</span>)}
            </div>
            <div class="heat-words">
                <p id="heat-at" role="status" data-testid="heat-at">
                    {shown ? sayCell(heatmap, shown) : region ? '' : baseline ? 'Now select the region to compare with the baseline.' : 'Drag over the heatmap, or click a second, to show its flame graph.'}
                </p>
                {baseline && (
                    <p data-testid="heat-baseline">
                        <i class="swatch heat-baseline" />baseline {sayRegion(heatmap, baseline)}
                    </p>
                )}
                {region && (
                    <p data-testid="heat-region">
                        <i class="swatch heat-region" />
                        {baseline ? 'compared' : 'region'} {sayRegion(heatmap, region)}
                    </p>
                )}
            </div>
        </section>
    );
}
