// Draws a tree as an icicle graph (callers above, callees below) on a canvas. Only nodes that are visible and wider than half a pixel
// are drawn, so the cost of an animation frame does not depend on the number of nodes. Selection and search are handled by flame.tsx,
// whose DOM elements serve keyboards and screen readers.

import type { CanvasColors } from './palette';
import { rowCount, type Matches, type Tree } from './tree';

export const ROW = 20;
const FONT_PX = 12;
const PAD = 5;
const ZOOM_MS = 180;

export interface Scene {
    tree: Tree;
    colors: string[]; // of tree.frames
    nodeColors: string[] | null; // colours per node, which override the colours of frames
    canvasColors: CanvasColors;
    font: string;
    matches: Matches | null;
}

export class FlameCanvas {
    private context: CanvasRenderingContext2D;
    private scene: Scene | null = null;
    private width = 0;
    private height = 0;
    private top = 0; // pixels scrolled away
    private from = 0; // positions at the left and right edge, in the tree's unit
    private to = 1;
    private zoomDepth = 0; // rows above it span the whole width
    private frameRequest = 0;
    private animation: { from: number; to: number; toFrom: number; toTo: number; begun: number } | null = null;
    private charWidth = 7;
    private hatch: CanvasPattern | null = null;
    private still = matchMedia('(prefers-reduced-motion: reduce)');

    constructor(private canvas: HTMLCanvasElement, private moved: () => void) {
        this.context = canvas.getContext('2d', { alpha: false })!;
    }

    show(scene: Scene, root: number): void {
        this.scene = scene;
        this.context.font = `${FONT_PX}px ${scene.font}`;
        this.charWidth = this.context.measureText('0123456789abcdef').width / 16;
        this.hatch = this.makeHatch();
        this.zoomTo(root, false);
    }

    highlight(matches: Matches | null): void {
        if (this.scene) this.scene.matches = matches;
        this.redraw();
    }

    resize(width: number, height: number): void {
        const ratio = window.devicePixelRatio || 1;
        if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
            this.canvas.width = Math.round(width * ratio);
            this.canvas.height = Math.round(height * ratio);
        }
        this.canvas.style.width = `${width}px`;
        this.canvas.style.height = `${height}px`;
        this.width = width;
        this.height = height;
        this.draw();
    }

    scroll(top: number): void {
        this.top = top;
        this.draw();
    }

    zoomTo(root: number, animated: boolean): void {
        if (!this.scene) return;
        const { tree } = this.scene;
        const toFrom = tree.start[root]!;
        const toTo = toFrom + Math.max(tree.total[root]!, 1);
        this.zoomDepth = tree.depth[root]!;
        if (animated && !this.still.matches) {
            this.animation = { from: this.from, to: this.to, toFrom, toTo, begun: performance.now() };
        } else {
            this.animation = null;
            this.from = toFrom;
            this.to = toTo;
        }
        this.redraw();
    }

    // Where a node is, in pixels of the whole graph (not of the visible part).
    box(node: number): { left: number; top: number; width: number } {
        const { tree } = this.scene!;
        const scale = this.width / (this.to - this.from);
        const left = Math.max(0, (tree.start[node]! - this.from) * scale);
        const right = Math.min(this.width, (tree.start[node]! + tree.total[node]! - this.from) * scale);
        return { left, top: tree.depth[node]! * ROW, width: Math.max(0, right - left) };
    }

    // The node at a point of the whole graph, or -1.
    hit(x: number, y: number): number {
        if (!this.scene) return -1;
        const { tree } = this.scene;
        const row = Math.floor(y / ROW);
        if (row < 0 || row >= rowCount(tree)) return -1;
        const at = this.from + (x / this.width) * (this.to - this.from);
        const i = this.lastAtOrBefore(row, at);
        if (i < 0) return -1;
        const node = tree.order[i]!;
        return at < tree.start[node]! + tree.total[node]! ? node : -1;
    }

    redraw(): void {
        if (!this.frameRequest) this.frameRequest = requestAnimationFrame((now) => this.step(now));
    }

    stop(): void {
        cancelAnimationFrame(this.frameRequest);
    }

    private step(now: number): void {
        this.frameRequest = 0;
        const a = this.animation;
        if (a) {
            const t = Math.min(1, Math.max(0, (now - a.begun) / ZOOM_MS));
            const eased = 1 - (1 - t) ** 3;
            // Linear interpolation: exact at the end. Logarithmic interpolation would be smoother for deep zooms.
            this.from = t < 1 ? a.from + (a.toFrom - a.from) * eased : a.toFrom;
            this.to = t < 1 ? a.to + (a.toTo - a.to) * eased : a.toTo;
            if (t < 1) this.redraw();
            else this.animation = null;
        }
        this.draw();
    }

    // Index of the last node of a row that begins at or before `at`: nodes of a row are sorted from left to right.
    private lastAtOrBefore(row: number, at: number): number {
        const { tree } = this.scene!;
        let low = tree.rows[row]!;
        let high = tree.rows[row + 1]! - 1;
        let found = -1;
        while (low <= high) {
            const middle = (low + high) >> 1;
            if (tree.start[tree.order[middle]!]! <= at) {
                found = middle;
                low = middle + 1;
            } else {
                high = middle - 1;
            }
        }
        return found;
    }

    private makeHatch(): CanvasPattern | null {
        const tile = document.createElement('canvas');
        tile.width = tile.height = 6;
        const c = tile.getContext('2d')!;
        c.strokeStyle = this.scene!.canvasColors.hatch;
        c.lineWidth = 1.5;
        c.beginPath();
        for (const x of [-6, 0, 6]) {
            c.moveTo(x, 6);
            c.lineTo(x + 6, 0);
        }
        c.stroke();
        return this.context.createPattern(tile, 'repeat');
    }

    private draw(): void {
        if (!this.scene || !this.width) return;
        const { tree, canvasColors, font } = this.scene;
        const ratio = this.canvas.width / this.width;
        const c = this.context;
        c.setTransform(ratio, 0, 0, ratio, 0, 0);
        c.fillStyle = canvasColors.back;
        c.fillRect(0, 0, this.width, this.height);
        c.font = `${FONT_PX}px ${font}`;
        c.textBaseline = 'middle';
        const firstRow = Math.max(0, Math.floor(this.top / ROW));
        const lastRow = Math.min(rowCount(tree) - 1, Math.floor((this.top + this.height) / ROW));
        for (let row = firstRow; row <= lastRow; row++) this.drawRow(row);
        this.moved();
    }

    private drawRow(row: number): void {
        const { tree } = this.scene!;
        const scale = this.width / (this.to - this.from);
        const narrow = 0.5 / scale;
        const y = row * ROW - this.top;
        const end = tree.rows[row + 1]!;
        let drawnTo = -1;
        for (let i = Math.max(tree.rows[row]!, this.lastAtOrBefore(row, this.from)); i < end; i++) {
            const node = tree.order[i]!;
            const start = tree.start[node]!;
            if (start >= this.to) break;
            const stop = start + tree.total[node]!;
            if (stop <= this.from) continue;
            const left = Math.max(0, (start - this.from) * scale);
            const right = Math.min(this.width, (stop - this.from) * scale);
            // Several nodes within one pixel are drawn once.
            if (stop - start < narrow && right < drawnTo + 1) continue;
            drawnTo = right;
            this.drawNode(node, left, Math.max(right - left, 0.5), y, row < this.zoomDepth);
        }
    }

    private drawNode(node: number, left: number, width: number, y: number, above: boolean): void {
        const { tree, colors, nodeColors, canvasColors, matches } = this.scene!;
        const c = this.context;
        const frame = tree.frame[node]!;
        const matched = matches !== null && matches.frames[frame] === 1;
        const dimmed = matches !== null && !matched;
        const gap = width > 3 ? 1 : 0;
        c.globalAlpha = above ? 0.55 : 1;
        c.fillStyle = matched ? canvasColors.match : dimmed ? canvasColors.dimmed : (nodeColors?.[node] ?? colors[frame]!);
        c.fillRect(left, y, width - gap, ROW - 1);
        if (tree.frames[frame]!.kind === 'truncated' && this.hatch && !matched) {
            c.fillStyle = this.hatch;
            c.fillRect(left, y, width - gap, ROW - 1);
        }
        const room = Math.floor((width - 2 * PAD) / this.charWidth);
        if (room >= 3) {
            const name = tree.frames[frame]!.name;
            c.fillStyle = matched ? canvasColors.matchText : dimmed ? canvasColors.dimmedText : canvasColors.text;
            c.fillText(name.length > room ? `${name.slice(0, room - 1)}…` : name, left + PAD, y + ROW / 2);
        }
        c.globalAlpha = 1;
    }
}
