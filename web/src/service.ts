// The name that distinguishes services of a program: "uvicorn :8100", "nginx.service :80". Must match
// request_service_text() in src/model/request.c.

export function serviceName(service: string, unit: string, port: number): string {
    const name = service && unit.startsWith(`${service}.`) ? unit : service;
    return port ? `${name} :${port}` : name;
}
