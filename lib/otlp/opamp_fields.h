/* Field numbers and values of OpAMP's messages (opamp.proto, v0.14), by the names of that file: for the agent and the
 * centre, which each write one of the two messages and read the other. */
#pragma once

#define OPAMP_PATH      "/v1/opamp"
#define OPAMP_UID_BYTES 16

enum {
    AGENT_TO_SERVER_INSTANCE_UID = 1,
    AGENT_TO_SERVER_SEQUENCE_NUM = 2,
    AGENT_TO_SERVER_DESCRIPTION = 3,
    AGENT_TO_SERVER_CAPABILITIES = 4,
    AGENT_TO_SERVER_HEALTH = 5,
    AGENT_TO_SERVER_EFFECTIVE_CONFIG = 6,
    AGENT_TO_SERVER_DISCONNECT = 9
};
enum {
    AGENT_REPORTS_STATUS = 0x1,
    AGENT_REPORTS_CONFIG = 0x4,
    AGENT_REPORTS_HEALTH = 0x800,
    AGENT_REPORTS_HEARTBEAT = 0x2000
};

enum {
    SERVER_TO_AGENT_INSTANCE_UID = 1,
    SERVER_TO_AGENT_ERROR = 2,
    SERVER_TO_AGENT_FLAGS = 6,
    SERVER_TO_AGENT_CAPABILITIES = 7,
    SERVER_TO_AGENT_IDENTIFICATION = 8
};
enum { SERVER_ACCEPTS_STATUS = 0x1, SERVER_ACCEPTS_CONFIG = 0x4 };
enum { SERVER_WANTS_FULL_STATE = 0x1 }; /* a flag */
enum { SERVER_ERROR_MESSAGE = 2, SERVER_ERROR_RETRY = 3 };
enum { RETRY_INFO_NANOSECONDS = 1 };
enum { IDENTIFICATION_NEW_UID = 1 };

enum { DESCRIPTION_IDENTIFYING = 1, DESCRIPTION_OTHERS = 2 }; /* KeyValue of OTLP */
enum {
    HEALTH_IS_HEALTHY = 1,
    HEALTH_START_TIME = 2,
    HEALTH_LAST_ERROR = 3,
    HEALTH_STATUS = 4,
    HEALTH_STATUS_TIME = 5,
    HEALTH_COMPONENTS = 6 /* a map of the same message by name */
};
enum { MAP_KEY = 1, MAP_VALUE = 2 };
enum { EFFECTIVE_CONFIG_MAP = 1 };
enum { CONFIG_MAP_FILES = 1 }; /* a map */
enum { CONFIG_FILE_BODY = 1, CONFIG_FILE_TYPE = 2 };

/* Components of an agent's health. */
#define OPAMP_COMPONENT_BUDGET "budget" /* its status is the level of detail: "full", "least" */
#define OPAMP_COMPONENT_LOSSES "losses" /* its status begins with their number */
#define OPAMP_COMPONENT_PROBES "probes"
