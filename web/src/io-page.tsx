// The self-contained file of `sonde io report --html`: findings, bytes by process and time, access sizes, and files.

import { useMemo, useState } from 'preact/hooks';
import { Nothing } from './coverage';
import { renderFile } from './file-page';
import * as format from './format';
import { heatColor } from './heat';
import { bytesAt, bytesOf, decodeReport, LEVELS, levelOf, levelsOf, type Direction, type Process, type Report } from './io';
import { Failures, Files, Sizes, Totals } from './io-tables';
import { ticksOf } from './path';
import { ThemeButton, useTheme } from './theme';
import { Title } from './title';
import './style.css';

const PROCESSES = 32; // shown until "Show all" is pressed

function Findings({ report }: { report: Report }) {
    return (
        <section aria-labelledby="findings-title">
            <header class="bar">
                <h2 id="findings-title">Findings</h2>
                <p class="sum dim">by the share of the observed time that they explain; findings may explain the same time</p>
            </header>
            {report.findings.length === 0 && <p class="dim">None: nothing that can be changed explains 1 % of the time.</p>}
            <ul class="io-findings" data-testid="findings">
                {report.findings.map((f, i) => (
                    <li key={i} class={`io-${f.severity}`}>
                        <p>
                            <b>{f.name.replaceAll('_', ' ')}</b>
                            {f.operation && ` (${f.operation})`} <span class="io-severity">{f.severity}</span> <span class="number">{format.percent(f.share)}</span>
                        </p>
                        <p>{f.change}</p>
                        <p class="code dim">{f.about}</p>
                    </li>
                ))}
            </ul>
        </section>
    );
}

const colorNumbers = Array.from({ length: LEVELS + 2 }, (_, i) => i); // heatColor() needs only how many there are

function Row({ process, report, direction, levels, dark }: { process: Process; report: Report; direction: Direction; levels: number[]; dark: boolean }) {
    const cells = process.reads.map((_, i) => [i, bytesAt(process, i, direction)] as const).filter(([, bytes]) => bytes > 0);
    const words = `${process.command} ${process.pid}: ${format.bytes(bytesOf(process, direction))}`;
    return (
        <>
            <span class="io-lane" title={words}>
                {process.command} <span class="dim">{process.pid}</span>
            </span>
            <svg viewBox={`0 0 ${report.intervals} 1`} preserveAspectRatio="none" role="img" aria-label={words} shape-rendering="crispEdges">
                {cells.map(([i, bytes]) => (
                    <rect key={i} x={i} y="0" width="1" height="1" fill={heatColor(levelOf(levels, bytes), colorNumbers, dark)}>
                        <title>{`+${format.duration(i * report.interval)}: ${format.bytes(process.reads[i] ?? 0)} read, ${format.bytes(process.writes[i] ?? 0)} written`}</title>
                    </rect>
                ))}
            </svg>
        </>
    );
}

function Scale({ levels, dark }: { levels: number[]; dark: boolean }) {
    return (
        <ul class="legend" aria-label="Bytes in an interval">
            {levels.map((limit, i) => (
                <li key={i}>
                    <i class="swatch" style={{ background: heatColor(i + 1, colorNumbers, dark) }} />
                    {format.bytes(Math.round(limit))}
                </li>
            ))}
        </ul>
    );
}

function Heatmap({ report, dark }: { report: Report; dark: boolean }) {
    const [direction, setDirection] = useState<Direction>('both');
    const [all, setAll] = useState(false);
    const { intervals, interval } = report;
    const { processes, levels } = useMemo(() => {
        const sorted = report.processes.map((p) => ({ p, bytes: bytesOf(p, 'both') })).sort((a, b) => b.bytes - a.bytes).map(({ p }) => p);
        const most = sorted.reduce((max, p) => p.reads.reduce((m, _, i) => Math.max(m, bytesAt(p, i, direction)), max), 1);
        return { processes: sorted, levels: levelsOf(most) };
    }, [report, direction]);
    if (!intervals || !interval) return null;
    const whole = intervals * interval;
    return (
        <section aria-labelledby="heat-title">
            <header class="bar">
                <h2 id="heat-title">Bytes by process and time</h2>
                <div class="switch" role="group" aria-label="Direction">
                    {(['both', 'reads', 'writes'] as const).map((d) => (
                        <button key={d} type="button" aria-pressed={d === direction} onClick={() => setDirection(d)}>
                            {{ both: 'Both', reads: 'Reads', writes: 'Writes' }[d]}
                        </button>
                    ))}
                </div>
                <p class="sum dim">in {format.duration(interval)}, up to</p>
                <Scale levels={levels} dark={dark} />
            </header>
            <div class="io-heat" data-testid="heat">
                {(all ? processes : processes.slice(0, PROCESSES)).map((p, i) => (
                    <Row key={i} process={p} report={report} direction={direction} levels={levels} dark={dark} />
                ))}
                <span />
                <div class="path-axis" aria-hidden="true">
                    {ticksOf(whole).map((ns) => (
                        <span key={ns} class="dim" style={{ left: `${(ns / whole) * 100}%`, transform: `translateX(${ns === 0 ? 0 : ns / whole > 0.94 ? -100 : -50}%)` }}>
                            {format.duration(ns)}
                        </span>
                    ))}
                </div>
            </div>
            {processes.length > PROCESSES && (
                <button type="button" class="all" onClick={() => setAll(!all)}>
                    {all ? `Show ${PROCESSES}` : `Show all ${processes.length}`}
                </button>
            )}
        </section>
    );
}

function IoPage({ report }: { report: Report }) {
    const theme = useTheme();
    const facts = [
        `${new Date(report.start).toISOString().slice(0, 19).replace('T', ' ')} UTC`,
        format.duration(report.duration),
        format.count(report.processes.length, 'process', 'processes'),
        `user ${report.uid}`,
        ...(report.job ? [`job ${report.job}`] : []),
    ];
    return (
        <>
            <header class="top">
                <Title />
                <p class="node-name">
                    I/O of {report.title} <span class="dim">{facts.join(' · ')}</span>
                </p>
                <ThemeButton choice={theme.choice} next={theme.next} />
            </header>
            {report.lost > 0 && <p class="failed" role="alert">Incomplete: {format.count(report.lost, 'operation')} did not fit the tables and are missing here.</p>}
            {report.pending > 0 && <p class="failed">{format.count(report.pending, 'operation')} had not ended: they and their time are missing here.</p>}
            <main id="main" tabIndex={-1}>
                {report.executable && <p class="code io-command">{report.executable}</p>}
                {report.files.length > 0 ? (
                    <>
                        <Totals report={report} />
                        <Findings report={report} />
                        <Failures failures={report.failures} />
                        <Heatmap report={report} dark={theme.dark} />
                        <Sizes files={report.files} />
                        <Files files={report.files} />
                    </>
                ) : (
                    <section data-testid="nothing">
                        <Nothing coverage={report.coverage} />
                    </section>
                )}
            </main>
        </>
    );
}

renderFile('io', 'The report', (json) => <IoPage report={decodeReport(json)} />);
